package clienttls

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
)

// scheme begins a SPIFFE id.
const scheme = "spiffe:"

// anyPart stands for any one part of a SPIFFE id: the trust domain, or what is between two slashes.
const anyPart = "*"

// Certificates reads certificates in PEM. That there is none, or a part of one, is an error.
func Certificates(text []byte) ([]*x509.Certificate, error) {
	if err := Whole(text); err != nil {
		return nil, err
	}
	bundle, err := x509bundle.Parse(spiffeid.TrustDomain{}, text)
	if err == nil && bundle.Empty() {
		err = errors.New("there is no certificate (PEM) in it")
	}
	if err != nil {
		return nil, err
	}
	return bundle.X509Authorities(), nil
}

// vouchers are certificates that vouch for every trust domain, as those of Dapr do.
type vouchers []*x509.Certificate

// GetX509BundleForTrustDomain implements [x509bundle.Source].
func (v vouchers) GetX509BundleForTrustDomain(domain spiffeid.TrustDomain) (*x509bundle.Bundle, error) {
	return x509bundle.FromX509Authorities(domain, v), nil
}

// matcher returns what judges an id by a pattern.
func matcher(pattern string) (spiffeid.Matcher, error) {
	want := strings.Split(pattern, "/")
	plain := make([]string, len(want))
	for i, part := range want {
		if plain[i] = part; part == anyPart {
			plain[i] = "any"
		} else if strings.Contains(part, anyPart) {
			return nil, fmt.Errorf("%q: %s stands for a whole part only", part, anyPart)
		}
	}
	if _, err := spiffeid.FromString(strings.Join(plain, "/")); err != nil {
		return nil, fmt.Errorf("no SPIFFE id such as spiffe://cluster.local/ns/dapr-system/dapr-scheduler: %w", err)
	}
	return func(id spiffeid.ID) error {
		got := strings.Split(id.String(), "/")
		same := len(got) == len(want)
		for i := 0; same && i < len(want); i++ {
			same = want[i] == anyPart || want[i] == got[i]
		}
		if !same {
			return fmt.Errorf("the certificate is for %s, not for %s", id, pattern)
		}
		return nil
	}, nil
}
