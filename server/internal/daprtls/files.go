package daprtls

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
)

// FromFiles keeps the identity that is in the files, read again within about a second when they change; a
// change that is wrong is logged, and what was before it stays in force. Files that are wrong at the start
// are an error.
func FromFiles(o Files) (*Source, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	domains, _ := clientDomains(o.ClientTrustDomains) // they are valid
	f := &files{o: o, anchors: anchorsFile{path: o.CA}}
	s := newSource(cmp.Or(o.Log, slog.New(slog.DiscardHandler)), domains)
	if err := f.look(context.Background(), s); err != nil {
		return nil, err
	}
	s.keep(f)
	return s, nil
}

// files keeps an identity that is in files.
type files struct {
	o         Files
	anchors   anchorsFile
	cert, key []byte // as they are in force
}

// look reads what has changed.
func (f *files) look(_ context.Context, s *Source) error {
	anchors, err := f.anchors.read()
	if anchors != nil {
		s.trust(anchors)
	}
	return errors.Join(err, f.lookAtKey(s))
}

// lookAtKey reads the certificate and its key. While they are replaced one after the other they do not fit:
// the pair before stays in force until they do.
func (f *files) lookAtKey(s *Source) error {
	cert, err := os.ReadFile(f.o.Cert)
	if err != nil {
		return fmt.Errorf("tls_cert_file: %w", err)
	}
	key, err := os.ReadFile(f.o.Key)
	if err != nil {
		return fmt.Errorf("tls_key_file: %w", err)
	}
	if bytes.Equal(cert, f.cert) && bytes.Equal(key, f.key) {
		return nil
	}
	svid, err := identity(cert, key)
	if err != nil {
		return fmt.Errorf("tls_cert_file %s, tls_key_file %s: %w", f.o.Cert, f.o.Key, err)
	}
	if _, app, ok := workload(svid.ID); !ok || app != AppID {
		return fmt.Errorf("tls_cert_file %s: the certificate is for %s, and sidecars accept spiffe://TRUST-DOMAIN/ns/NAMESPACE/%s only",
			f.o.Cert, svid.ID, AppID)
	}
	f.cert, f.key = cert, key
	s.put(svid)
	return nil
}

// identity is a certificate, with those that lead up to a trust anchor, and its key, all PEM.
func identity(certPEM, keyPEM []byte) (*x509svid.SVID, error) {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, err
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, errors.New("the private key cannot sign")
	}
	id, err := x509svid.IDFromCert(pair.Leaf)
	if err != nil {
		return nil, fmt.Errorf("no name of a workload in the certificate: %w", err)
	}
	if time.Now().After(pair.Leaf.NotAfter) {
		return nil, fmt.Errorf("the certificate ended at %s", pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	chain, err := x509.ParseCertificates(bytes.Join(pair.Certificate, nil))
	if err != nil {
		return nil, err
	}
	return &x509svid.SVID{ID: id, Certificates: chain, PrivateKey: key}, nil
}

// anchorsFile is a file of trust anchors.
type anchorsFile struct {
	path string
	raw  []byte // as it is in force; nil: not yet
}

// read is the trust anchors if the file has changed, otherwise nil.
func (f *anchorsFile) read() (*x509bundle.Bundle, error) {
	raw, err := os.ReadFile(f.path)
	if err != nil {
		return nil, fmt.Errorf("trust anchors: %w", err)
	}
	if f.raw != nil && bytes.Equal(raw, f.raw) {
		return nil, nil
	}
	bundle, err := x509bundle.Parse(spiffeid.TrustDomain{}, raw)
	if err == nil && bundle.Empty() {
		err = errors.New("there is no certificate (PEM) in it")
	}
	if err != nil {
		return nil, fmt.Errorf("trust anchors: %s: %w", f.path, err)
	}
	f.raw = raw
	return bundle, nil
}
