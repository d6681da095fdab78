package httptarget

import (
	"context"
	"crypto/tls"
	"net"
)

// dialFunc has the signature of [net.Dialer.DialContext].
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// handshakeError reports that the TLS handshake failed for any reason; crypto/tls has no type for most of
// them.
type handshakeError struct{ error }

func (e *handshakeError) Unwrap() error { return e.error }

// clientTLS returns a copy of a configuration that asks for TLS 1.2 at least; nil is the system's roots.
func clientTLS(base *tls.Config) *tls.Config {
	if base == nil {
		base = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	base = base.Clone()
	base.MinVersion = max(base.MinVersion, tls.VersionTLS12)
	return base
}

// dialTLS returns a dialler that does a TLS handshake and offers HTTP/2 and HTTP/1.1.
func dialTLS(dial dialFunc, base *tls.Config) dialFunc {
	base = clientTLS(base)
	base.NextProtos = []string{"h2", "http/1.1"}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		conf := base.Clone()
		if conf.ServerName == "" {
			conf.ServerName, _, _ = net.SplitHostPort(address) // the dialler has parsed it
		}
		ctx, cancel := context.WithTimeout(ctx, connectTimeout)
		defer cancel()
		m := newMeter(raw)
		agreed := tls.Client(m, conf)
		if err := agreed.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			return nil, &handshakeError{err}
		}
		if agreed.ConnectionState().NegotiatedProtocol == "h2" {
			return agreed, nil // net/http looks for this type
		}
		m.off()
		return &conn{Conn: agreed}, nil
	}
}
