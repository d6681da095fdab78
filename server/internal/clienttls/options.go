package clienttls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// Options say how a node is verified and what is shown to it. The zero value is no TLS.
type Options struct {
	// CA is a file with the certificates (PEM) that the node is verified against. Default: those that this
	// machine trusts. It is required for a SPIFFE id, which those vouch for nowhere. It is read once.
	CA string
	// Cert is a file with a certificate (PEM) to show to the node, then those that lead up to one that the
	// node trusts. Default: nothing is shown.
	Cert string
	// Key is a file with the private key of the certificate. The two are read again for each connection, so
	// they may be renewed.
	Key string
	// ServerName is whom the node's certificate must name: a DNS name, an IP address, or a SPIFFE id,
	// spiffe://TRUST-DOMAIN/PATH, in which * stands for any one part. Default: the host of the address.
	ServerName string
}

// Names are what the options are called in errors, for example "--ca".
type Names struct{ CA, Cert, Key, ServerName string }

// Given reports whether connections are to use TLS.
func (o Options) Given() bool { return o != Options{} }

// Config reads the files. Its error names everything that is wrong.
func (o Options) Config(names Names) (*tls.Config, error) {
	r := reader{o: o, names: names}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	anchors := r.anchors()
	name, err := ParseName(o.ServerName)
	if err != nil {
		r.wrongf(names.ServerName, "%w", err)
	}
	if name.isID() && o.CA == "" {
		r.wrongf(names.CA, "a SPIFFE id is verified against trust anchors: give their file")
	}
	name.Demand(config, anchors)
	if r.pair() { // last, since what verifies a SPIFFE id resets it
		config.GetClientCertificate = o.show
	}
	if err := errors.Join(r.faults...); err != nil {
		return nil, err
	}
	return config, nil
}

// show reads the certificate to show, and its key.
func (o Options) show(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
	if err != nil {
		return nil, err
	}
	return &pair, nil
}

// reader reads what the options name, and collects what is wrong.
type reader struct {
	o      Options
	names  Names
	faults []error
}

func (r *reader) wrongf(name, format string, args ...any) {
	r.faults = append(r.faults, fmt.Errorf("%s: "+format, append([]any{name}, args...)...))
}

// pair reports whether there is a certificate to show.
func (r *reader) pair() bool {
	switch {
	case r.o.Cert == "" && r.o.Key == "":
		return false
	case r.o.Key == "":
		r.wrongf(r.names.Key, "the private key of the certificate is needed too")
	case r.o.Cert == "":
		r.wrongf(r.names.Cert, "the certificate that the private key belongs to is needed too")
	default:
		if _, err := r.o.show(nil); err != nil {
			r.wrongf(r.names.Cert+", "+r.names.Key, "%w", err)
		}
	}
	return true
}

// anchors returns the certificates that the node is verified against; nil: those that this machine trusts.
func (r *reader) anchors() []*x509.Certificate {
	if r.o.CA == "" {
		return nil
	}
	text, err := os.ReadFile(r.o.CA)
	if err != nil {
		r.wrongf(r.names.CA, "%w", err)
		return nil
	}
	anchors, err := Certificates(text)
	if err != nil {
		r.wrongf(r.names.CA, "%s: %w", r.o.CA, err)
	}
	return anchors
}
