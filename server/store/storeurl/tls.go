package storeurl

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// Files are paths of PEM files, as the parameters sslrootcert, sslcert and sslkey name them, whose names are
// those of PostgreSQL. An empty one is none.
type Files struct {
	Authorities string // sslrootcert: that a server's certificate is verified against, in place of the system's
	Certificate string // sslcert: that a server is shown
	Key         string // sslkey: of the certificate
}

// Set takes one of the parameters of a URL.
func (f *Files) Set(name, value string) {
	switch name {
	case "sslrootcert":
		f.Authorities = value
	case "sslcert":
		f.Certificate = value
	case "sslkey":
		f.Key = value
	}
}

// Read reads the files into a configuration, which is nil if the URL does not ask for TLS. Errors name the
// server, such as "Redis", and the scheme of a URL that does ask for it.
func (f *Files) Read(into *tls.Config, server, scheme string) error {
	switch {
	case *f == Files{}:
		return nil
	case into == nil:
		return fmt.Errorf("store: sslrootcert, sslcert and sslkey are for a URL that begins with %s://", scheme)
	case (f.Certificate == "") != (f.Key == ""):
		return fmt.Errorf("store: sslcert and sslkey of the URL of %s belong together: give both, or none", server)
	}
	if f.Authorities != "" {
		text, err := os.ReadFile(f.Authorities)
		if err != nil {
			return fmt.Errorf("store: sslrootcert of the URL of %s: %w", server, err)
		}
		into.RootCAs = x509.NewCertPool()
		if !into.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("store: sslrootcert of the URL of %s: there is no certificate in %s (PEM)", server, f.Authorities)
		}
	}
	if f.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(f.Certificate, f.Key)
		if err != nil {
			return fmt.Errorf("store: sslcert and sslkey of the URL of %s: %w", server, err)
		}
		into.Certificates = []tls.Certificate{pair}
	}
	return nil
}
