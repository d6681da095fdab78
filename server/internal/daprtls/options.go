package daprtls

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
)

// Defaults, those of Dapr 1.18.
const (
	DefaultTrustDomain = "localhost"
	DefaultNamespace   = "default"

	// AppID is what sidecars expect a scheduler to be called.
	AppID = "dapr-scheduler"
)

// Sentry says how the identity is had from Dapr's sentry ([FromSentry]).
type Sentry struct {
	// Address of sentry, host:port. Default: dapr-sentry.NAMESPACE.svc:443, where Dapr's chart puts it.
	Address string
	// TrustDomain of Dapr's control plane. Default "localhost".
	TrustDomain string
	// Namespace of Dapr's control plane, which is this node's as well. Default: $NAMESPACE, otherwise
	// "default".
	Namespace string
	// TrustAnchorsFile has the certificates (PEM) that everything is verified against, sentry too. It is read
	// again when it changes, and waited for while it is missing. Required.
	TrustAnchorsFile string
	// Kubernetes: sentry is shown the service account token of this pod. Otherwise it is shown nothing, as
	// sentry outside Kubernetes has it by default, unless there is a TokenFile.
	Kubernetes bool
	// TokenFile has a token (JWT) to show to sentry instead. Default: $DAPR_SENTRY_TOKEN_FILE.
	TokenFile string
	// WriteTo is a folder that key.pem, cert.pem and ca.pem are written to at each renewal, all at once: it
	// becomes a symbolic link to a folder beside it. Default: nothing is written.
	WriteTo string

	// ClientTrustDomains are those whose sidecars are let in. Default: every one that the trust anchors vouch
	// for, as Dapr has it; there, the trust domain of an app is "public" unless its configuration says
	// otherwise.
	ClientTrustDomains []string
	// Log is told of renewals and of what goes wrong. Default: nothing is.
	Log *slog.Logger

	// dial connects to sentry: tests have it in memory, where time can stand still.
	dial func(context.Context, string) (net.Conn, error)
}

// Files says which files have the identity ([FromFiles]); all are PEM, and read again when they change.
type Files struct {
	// Cert has the certificate of this node, then those that lead up to one in CA. Its only URI is
	// spiffe://TRUST-DOMAIN/ns/NAMESPACE/dapr-scheduler. Required.
	Cert string
	// Key has the private key of the certificate. Required.
	Key string
	// CA has the certificates that sidecars are verified against. Required.
	CA string

	// ClientTrustDomains are those whose sidecars are let in. Default: every one that CA vouches for, as Dapr
	// has it.
	ClientTrustDomains []string
	// Log is told of changes and of what goes wrong. Default: nothing is.
	Log *slog.Logger
}

func (o Sentry) withDefaults() Sentry {
	o.TrustDomain = cmp.Or(o.TrustDomain, DefaultTrustDomain)
	o.Namespace = cmp.Or(o.Namespace, os.Getenv("NAMESPACE"), DefaultNamespace)
	o.Address = cmp.Or(o.Address, "dapr-sentry."+o.Namespace+".svc:443")
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// Validate names everything that is wrong with the options, all at once.
func (o Sentry) Validate() error {
	o = o.withDefaults()
	var faults []error
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if host, port, err := net.SplitHostPort(o.Address); err != nil || host == "" || port == "" {
		wrong("sentry_address: %q is not an address such as localhost:50001", o.Address)
	}
	if o.TrustAnchorsFile == "" {
		wrong("trust_anchors_file: a file with the certificates of Dapr's trust anchors is needed to verify sentry and sidecars")
	}
	if _, err := o.id(AppID); err != nil {
		wrong("trust_domain %q, namespace %q: no name of a workload: %w", o.TrustDomain, o.Namespace, err)
	}
	if path, given := os.LookupEnv(tokenFileVariable); given && path == "" && o.TokenFile == "" {
		wrong("%s: set, but empty: it takes the path of a file with a token", tokenFileVariable)
	}
	if err := writable(o.WriteTo); err != nil {
		faults = append(faults, err)
	}
	_, err := clientDomains(o.ClientTrustDomains)
	return errors.Join(append(faults, err)...)
}

// id is the name of an app of the control plane.
func (o Sentry) id(app string) (spiffeid.ID, error) {
	domain, err := trustDomain(o.TrustDomain)
	if err != nil {
		return spiffeid.ID{}, err
	}
	return spiffeid.FromSegments(domain, "ns", o.Namespace, app)
}

// Validate names everything that is wrong with the options, all at once. It does not open the files.
func (o Files) Validate() error {
	var faults []error
	for _, f := range []struct{ name, path, what string }{
		{"tls_cert_file", o.Cert, "this node's certificate"},
		{"tls_key_file", o.Key, "the private key of this node's certificate"},
		{"tls_ca_file", o.CA, "the certificates that sidecars are verified against"},
	} {
		if f.path == "" {
			faults = append(faults, fmt.Errorf("%s: a file with %s is needed", f.name, f.what))
		}
	}
	_, err := clientDomains(o.ClientTrustDomains)
	return errors.Join(append(faults, err)...)
}

// clientDomains is the set of trust domains whose sidecars are let in, empty for all.
func clientDomains(names []string) (map[spiffeid.TrustDomain]bool, error) {
	domains := make(map[spiffeid.TrustDomain]bool, len(names))
	var faults []error
	for i, name := range names {
		domain, err := trustDomain(name)
		if err != nil {
			faults = append(faults, fmt.Errorf("client_trust_domains[%d]: %q: %w", i, name, err))
			continue
		}
		domains[domain] = true
	}
	return domains, errors.Join(faults...)
}

// trustDomain reads the bare name of a trust domain. The library would take the domain out of a whole name as
// well, which is more likely a mistake.
func trustDomain(name string) (spiffeid.TrustDomain, error) {
	if strings.Contains(name, "/") {
		return spiffeid.TrustDomain{}, errors.New("this is not the bare name of a trust domain, such as cluster.local")
	}
	return spiffeid.TrustDomainFromString(name)
}
