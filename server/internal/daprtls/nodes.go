package daprtls

import (
	"fmt"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/spiffetls/tlsconfig"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// NodeServerOptions make a listener speak mutual TLS with the identity in force, and refuse everybody but the
// other nodes: those whose certificate has the name of this one, since all schedulers of a control plane have
// the same. [Sentry.ClientTrustDomains] is about sidecars and has no say here.
func (s *Source) NodeServerOptions() []grpc.ServerOption { return s.admitting(s.isNode) }

// NodeDialOptions connect to another node with the identity in force at that moment, and refuse everybody but
// nodes.
func (s *Source) NodeDialOptions() []grpc.DialOption {
	config := tlsconfig.MTLSClientConfig(s, s, tlsconfig.AdaptMatcher(s.isNode))
	return []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(config))}
}

// isNode judges somebody that the trust anchors vouch for.
func (s *Source) isNode(id spiffeid.ID) error {
	own, err := s.GetX509SVID()
	if err != nil {
		return err
	}
	if id != own.ID {
		return fmt.Errorf("%s is no node: all of them are called %s", id, own.ID)
	}
	return nil
}
