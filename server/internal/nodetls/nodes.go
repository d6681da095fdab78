package nodetls

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/carillonhq/carillon/server/internal/clienttls"
)

// Dial returns the options of connections to other nodes. Each is made with what is in force then.
func (s *Source) Dial() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithTransportCredentials(&dialing{from: s.from})}
}

// Node returns nil if the caller of a call is a node, by its certificate; otherwise why it is not.
func (s *Source) Node(ctx context.Context) error {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return errNoNode
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return errNoNode
	}
	return s.from.isNode(&info.State)
}

// Reachable returns nil if other nodes accept this one's certificate at an address, host:port. From then on a
// certificate that they would refuse there does not come in force.
func (s *Source) Reachable(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	leaf, err := s.from.leaf()
	if err != nil {
		return err
	}
	if err := s.from.reachedAt(host); err != nil {
		return fmt.Errorf("other nodes reach this one at %s, and would not accept its certificate, which names %s: %w",
			address, clienttls.NamesIn(leaf), err)
	}
	return nil
}

// dialing makes connections to other nodes by TLS.
type dialing struct{ from origin }

var _ credentials.TransportCredentials = (*dialing)(nil)

// ClientHandshake implements [credentials.TransportCredentials].
func (d *dialing) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (
	net.Conn, credentials.AuthInfo, error) {
	config, err := d.from.connection()
	if err != nil {
		return nil, nil, err
	}
	if config.ServerName != "" {
		authority = config.ServerName // gRPC would go by the address
	}
	config.MinVersion = tls.VersionTLS12
	return credentials.NewTLS(config).ClientHandshake(ctx, authority, raw)
}

// errOneWay refuses to accept connections with what makes them.
var errOneWay = errors.New("these credentials are for connections to other nodes")

// ServerHandshake implements [credentials.TransportCredentials].
func (*dialing) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errOneWay
}

// Info implements [credentials.TransportCredentials].
func (*dialing) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone implements [credentials.TransportCredentials].
func (d *dialing) Clone() credentials.TransportCredentials { return &dialing{from: d.from} }

// OverrideServerName implements [credentials.TransportCredentials]. The name is that of the settings.
func (*dialing) OverrideServerName(string) error { return errOneWay }
