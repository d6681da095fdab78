package daprtls

import (
	"context"
	"fmt"
	"strings"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/spiffetls/tlsconfig"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// ServerOptions make a listener speak mutual TLS with the identity in force, and refuse clients whose
// certificate the trust anchors do not vouch for. Each connection is judged once, when it is made: what
// changes later holds for new ones. While there is no identity every connection is refused.
func (s *Source) ServerOptions() []grpc.ServerOption { return s.admitting(s.letIn) }

// admitting are the options of a listener for clients that a function admits.
func (s *Source) admitting(admits spiffeid.Matcher) []grpc.ServerOption {
	config := tlsconfig.MTLSServerConfig(s, s, tlsconfig.AdaptMatcher(admits))
	// A resumed session would skip the check of the client's certificate, against trust anchors that may have
	// changed.
	config.SessionTicketsDisabled = true
	return []grpc.ServerOption{grpc.Creds(credentials.NewTLS(config))}
}

// letIn judges a client that the trust anchors vouch for.
func (s *Source) letIn(id spiffeid.ID) error {
	if len(s.domains) > 0 && !s.domains[id.TrustDomain()] {
		return fmt.Errorf("the trust domain of %s is not one whose sidecars are let in", id)
	}
	return nil
}

// Authorize reports whether the client of a call may speak for the app: only if its certificate names that
// namespace and app id. The trust domain does not matter, as in Dapr; [Sentry.ClientTrustDomains] limits it.
// Errors are those of Dapr's scheduler: Unauthenticated for a client that no certificate names,
// PermissionDenied for another app.
func (s *Source) Authorize(ctx context.Context, namespace, appID string) error {
	ns, app, ok := client(ctx)
	if !ok {
		return status.Error(codes.Unauthenticated, "failed to get identity from context")
	}
	if ns != namespace || app != appID {
		return status.Error(codes.PermissionDenied, "identity does not match request")
	}
	return nil
}

// client is whom the certificate of the connection names.
func client(ctx context.Context) (namespace, app string, ok bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return "", "", false
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return "", "", false
	}
	id, err := x509svid.IDFromCert(info.State.PeerCertificates[0])
	if err != nil {
		return "", "", false
	}
	return workload(id)
}

// workload splits /ns/NAMESPACE/APP. Dapr reads longer paths the same way; here they name nobody, because
// whoever signs such a name means something else by it than sentry does.
func workload(id spiffeid.ID) (namespace, app string, ok bool) {
	rest, ok := strings.CutPrefix(id.Path(), "/ns/")
	if !ok {
		return "", "", false
	}
	namespace, app, ok = strings.Cut(rest, "/")
	return namespace, app, ok && namespace != "" && app != "" && !strings.Contains(app, "/")
}
