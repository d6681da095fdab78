package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/httpapi"
	nodes "github.com/carillonhq/carillon/server/internal/peer"
)

// Credentials are how the nodes of a store know each other at the gRPC listener. Unless Clients says more it
// then is for nobody else: it may be reachable from other machines without [Config.Insecure].
type Credentials struct {
	// Server are options of the listener, and Dial those of connections to other nodes.
	Server []grpc.ServerOption
	Dial   []grpc.DialOption
	// Ready returns nil once the node can prove who it is. Until then it does not join the cluster: the
	// others could not reach it. Default: it always can.
	Ready func() error
	// Clients lets clients in, too. Nil: they are not let in at GRPC, and HTTP is plain text.
	Clients *Clients
}

// Clients say what holds for clients at the gRPC and HTTP listeners.
type Clients struct {
	// HTTP is TLS of the HTTP listener. Required.
	HTTP *tls.Config
	// Anyone says that clients need no certificate. Otherwise the listeners may be reachable from other
	// machines without [Config.Insecure]; at the HTTP listener, /livez and /readyz need none.
	Anyone bool
	// IDsOnly says that nothing but the SPIFFE ids in clients' certificates is verified.
	IDsOnly bool
	// Client reports whether an authority of clients, not only one of nodes, has signed the certificate of a
	// verified connection: others have no rule. Required.
	Client func(verified *tls.ConnectionState) bool
	// Node returns nil if the caller of a gRPC call is a node, otherwise why it is not. Required.
	Node func(ctx context.Context) error
	// Reachable returns an error if other nodes, which reach this one at the address, host:port, would refuse
	// its certificate. Required.
	Reachable func(address string) error
}

// errPlain refuses credentials that would be none.
var errPlain = errors.New("credentials: options of the listener or of connections are missing: it would be plain text")

// complete refuses credentials by which everybody would be admitted.
func (c *Credentials) complete() error {
	if c != nil && (len(c.Server) == 0 || len(c.Dial) == 0) {
		return errPlain
	}
	if f := c.clients(); f != nil && (f.HTTP == nil || f.Client == nil || f.Node == nil || f.Reachable == nil) {
		return errPlain
	}
	return nil
}

// clients returns what holds for clients; nil: they are not let in, or everybody is.
func (c *Credentials) clients() *Clients {
	if c == nil {
		return nil
	}
	return c.Clients
}

// known reports whether everybody whom the gRPC listener lets in has shown a certificate.
func (c *Credentials) known() bool { return c != nil && (c.Clients == nil || !c.Clients.Anyone) }

// knownOverHTTP reports the same of the HTTP listener, apart from probes.
func (c *Credentials) knownOverHTTP() bool { return c.clients() != nil && !c.Clients.Anyone }

// reachable returns an error if the other nodes would refuse this one's certificate at its address.
func (c *Credentials) reachable(self carillon.Node) error {
	if c.clients() == nil || self.Address == "" {
		return nil
	}
	if err := c.Clients.Reachable(self.Address); err != nil {
		return fmt.Errorf("advertise: %w", err)
	}
	return nil
}

// node returns what judges callers of the services between nodes; nil: nobody else is let in, or nodes show
// no certificate.
func (c *Credentials) node() func(context.Context) error {
	if c.clients() == nil {
		return nil
	}
	return c.Clients.Node
}

// reach returns what opens sessions with other nodes; secret is that of the cluster.
func (c *Credentials) reach(secret string) func(context.Context, string, carillon.Hello) (carillon.Session,
	error) {
	return func(ctx context.Context, address string, hello carillon.Hello) (carillon.Session, error) {
		return client.ConnectTo(ctx, address, hello, client.WithDialOptions(c.dial()...),
			client.WithDialOptions(nodes.AsNode(secret)))
	}
}

// overHTTP has a handler get only requests of clients that it may serve. Who the client is stands in the
// context, as in that of gRPC's calls ([peer.FromContext]). Nil refused: nobody is told of the others.
func (c *Credentials) overHTTP(handler http.Handler, refused func(*http.Request, error)) http.Handler {
	if c.clients() == nil {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			caller := &peer.Peer{Addr: address(r.RemoteAddr)}
			handler.ServeHTTP(w, r.WithContext(peer.NewContext(r.Context(), caller)))
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !c.Clients.Anyone && len(r.TLS.PeerCertificates) == 0 {
			if !httpapi.Probe(r.URL.Path) {
				if refused != nil {
					refused(r, errNoCertificate)
				}
				http.Error(w, "a client certificate is needed", http.StatusUnauthorized)
				return
			}
			w = httpapi.CodeOnly{ResponseWriter: w}
		}
		caller := &peer.Peer{Addr: address(r.RemoteAddr), AuthInfo: credentials.TLSInfo{State: *r.TLS,
			CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}}
		handler.ServeHTTP(w, r.WithContext(peer.NewContext(r.Context(), caller)))
	})
}

var errNoCertificate = carillon.Errorf(carillon.Unauthenticated, "", "a client certificate is needed")

// address is that of a client of HTTP.
type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

// errNoCredentials reports that a node cannot prove yet who it is.
var errNoCredentials = errors.New("the node cannot be known to the others yet")

// ready returns an errNoCredentials while the node cannot prove who it is.
func (c *Credentials) ready() error {
	if c == nil || c.Ready == nil {
		return nil
	}
	if err := c.Ready(); err != nil {
		return fmt.Errorf("%w: %w", errNoCredentials, err)
	}
	return nil
}

// server returns the options of the listener.
func (c *Credentials) server() []grpc.ServerOption {
	if c == nil {
		return nil
	}
	return c.Server
}

// dial returns the options of connections to other nodes.
func (c *Credentials) dial() []grpc.DialOption {
	if c == nil {
		return nil
	}
	return c.Dial
}

// setting says for the other nodes whether there are any: those with and those without cannot talk.
func (c *Credentials) setting() string { return strconv.FormatBool(c != nil) }
