package nodetls

import (
	"crypto/tls"
	"crypto/x509"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// Source has what a node's listeners and its connections to other nodes use. It is safe for concurrent use.
// What changes holds for connections made from then on.
type Source struct {
	from   origin
	anyone bool // no certificate is demanded of clients
	end    func()
}

// origin is where certificates come from. All its methods give what is in force at that moment.
type origin interface {
	// listener is the configuration of one connection to the gRPC listener, or to that of HTTP.
	listener(http bool) (*tls.Config, error)
	// connection is the configuration of one connection to another node.
	connection() (*tls.Config, error)
	// isNode returns nil if a verified connection is that of a node, otherwise why it is not.
	isNode(verified *tls.ConnectionState) error
	// isClient reports whether an authority of clients, not only one of nodes, has signed the certificate of a
	// verified connection.
	isClient(verified *tls.ConnectionState) bool
	// leaf is the certificate that the node shows.
	leaf() (*x509.Certificate, error)
	// reachedAt says at which host other nodes reach this one. It returns nil if they accept the certificate.
	// From then on none comes in force that they would refuse.
	reachedAt(host string) error
}

// Anyone reports whether clients are let in that show no certificate.
func (s *Source) Anyone() bool { return s.anyone }

// Client reports whether an authority of clients has signed the certificate of a verified connection. At the
// same listener nodes show those of theirs, which may be another.
func (s *Source) Client(verified *tls.ConnectionState) bool { return s.from.isClient(verified) }

// GRPC returns the options of a gRPC listener. If a certificate is demanded of clients, the handshake fails
// without one.
func (s *Source) GRPC() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.Creds(credentials.NewTLS(s.config(false)))}
}

// HTTP returns the configuration of an HTTP listener. A certificate that a client shows is verified. That it
// must show one, the handler decides: probes cannot.
func (s *Source) HTTP() *tls.Config { return s.config(true) }

func (s *Source) config(http bool) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.accept(http) }}
}

// accept returns the configuration of one connection.
func (s *Source) accept(http bool) (*tls.Config, error) {
	config, err := s.from.listener(http)
	if err != nil {
		return nil, err
	}
	// A resumed session would skip the check of the client's certificate.
	config.MinVersion, config.SessionTicketsDisabled = tls.VersionTLS12, true
	config.NextProtos = []string{"h2"}
	if http {
		config.NextProtos = append(config.NextProtos, "http/1.1")
	}
	return config, nil
}

// Close ends what watches for changes. What is in force stays so.
func (s *Source) Close() { s.end() }
