package redis

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// tlsFiles are the files that the parameters of a URL name, as PostgreSQL's do; an empty name is none.
type tlsFiles struct {
	// sslrootcert: that the server's certificate is verified against, in place of the system's
	authorities string
	certificate string // sslcert: that the server is shown
	key         string // sslkey: of the certificate
}

// read reads the files into a configuration, which is nil if the URL does not ask for TLS.
func (f *tlsFiles) read(into *tls.Config) error {
	switch {
	case *f == tlsFiles{}:
		return nil
	case into == nil:
		return errors.New("store: sslrootcert, sslcert and sslkey are for a URL that begins with rediss://")
	case (f.certificate == "") != (f.key == ""):
		return errors.New("store: sslcert and sslkey of the URL of Redis belong together: give both, or none")
	}
	if f.authorities != "" {
		text, err := os.ReadFile(f.authorities)
		if err != nil {
			return fmt.Errorf("store: sslrootcert of the URL of Redis: %w", err)
		}
		into.RootCAs = x509.NewCertPool()
		if !into.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("store: sslrootcert of the URL of Redis: there is no certificate in %s (PEM)",
				f.authorities)
		}
	}
	if f.certificate != "" {
		pair, err := tls.LoadX509KeyPair(f.certificate, f.key)
		if err != nil {
			return fmt.Errorf("store: sslcert and sslkey of the URL of Redis: %w", err)
		}
		into.Certificates = []tls.Certificate{pair}
	}
	return nil
}
