package clienttls

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"strings"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/spiffetls/tlsconfig"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
)

// Name is whom a certificate must name: a DNS name, an IP address, or a SPIFFE id in which * stands for any
// one part. The zero value is the host of the address that is dialled.
type Name struct {
	text string
	id   spiffeid.Matcher // nil: no SPIFFE id
}

// ParseName reads a name. An empty text is the zero value.
func ParseName(text string) (Name, error) {
	n := Name{text: text}
	var err error
	switch {
	case strings.HasPrefix(strings.ToLower(text), scheme):
		if n.id, err = matcher(text); err != nil {
			err = fmt.Errorf("%q: %w", text, err)
		}
	case text != "" && !isHost(text):
		err = fmt.Errorf("%q is no name of a host without a port, and no SPIFFE id, spiffe://…", text)
	}
	return n, err
}

// isHost reports whether a certificate could name the text as a DNS name or an IP address.
func isHost(text string) bool {
	return net.ParseIP(text) != nil || !strings.ContainsAny(text, "/:*@ ")
}

func (n Name) isID() bool { return n.id != nil }

// Host returns the DNS name or IP address; empty if it is a SPIFFE id, or the host of the address.
func (n Name) Host() string {
	if n.isID() {
		return ""
	}
	return n.text
}

// Demand makes connections to those only whose certificate has the name and leads up to one of the anchors;
// nil: those that this machine trusts. It removes what config shows.
func (n Name) Demand(config *tls.Config, anchors []*x509.Certificate) {
	if n.isID() {
		tlsconfig.HookTLSClientConfig(config, vouchers(anchors), tlsconfig.AdaptMatcher(n.id))
		return
	}
	config.ServerName, config.RootCAs = n.text, Pool(anchors)
}

// Of returns nil if a certificate has the name, otherwise an error that says which it has. Any certificate
// has the zero value.
func (n Name) Of(cert *x509.Certificate) error {
	switch {
	case n.isID():
		id, err := x509svid.IDFromCert(cert)
		if err != nil {
			return fmt.Errorf("the certificate names no SPIFFE id: %w", err)
		}
		return n.id(id)
	case n.text != "":
		return cert.VerifyHostname(n.text)
	}
	return nil
}

// Pool returns the anchors as a pool; nil if there are none.
func Pool(anchors []*x509.Certificate) *x509.CertPool {
	if anchors == nil {
		return nil
	}
	pool := x509.NewCertPool()
	for _, a := range anchors {
		pool.AddCert(a)
	}
	return pool
}

// NamesIn returns whom a certificate names, with commas between.
func NamesIn(cert *x509.Certificate) string { return namesIn([]*x509.Certificate{cert}) }

// ID returns the SPIFFE id in a certificate, if it has exactly one, and that is right.
func ID(cert *x509.Certificate) (id string, ok bool) {
	found, err := x509svid.IDFromCert(cert)
	return found.String(), err == nil
}
