package clienttls

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// ErrNoTLS is the cause when something listens that does not speak TLS.
var ErrNoTLS = errors.New("it does not speak TLS")

// ErrRefused is the cause when a node does not take what is shown to it.
var ErrRefused = errors.New("it does not accept this client")

// probeTime bounds how long a probe takes. A server that has nothing to say is as good as one that accepts.
const probeTime = time.Second

// alpn is what gRPC asks for.
var alpn = []string{"h2"}

// Probe connects to host:port as a client with this configuration would, and returns why that fails, in terms
// that gRPC's errors do not have. nil: it does not fail.
func Probe(ctx context.Context, config *tls.Config, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer raw.Close()
	config = config.Clone()
	config.NextProtos = alpn
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(addr) // it was dialled
	}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return judge(err)
	}
	// In TLS 1.3 the server judges the client's certificate after the client's handshake has ended.
	if err := conn.SetReadDeadline(time.Now().Add(probeTime)); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return nil
	}
	return judge(err)
}

// judge says what an error of a handshake means.
func judge(err error) error {
	if _, plain := errors.AsType[tls.RecordHeaderError](err); plain {
		return ErrNoTLS
	}
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "remote error" {
		return fmt.Errorf("%w: %w", ErrRefused, alert.Err)
	}
	if unverified, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		if names := namesIn(unverified.UnverifiedCertificates); names != "" {
			return fmt.Errorf("%w; the certificate names %s", err, names)
		}
	}
	return err
}

// namesIn returns whom the first of the certificates names.
func namesIn(chain []*x509.Certificate) string {
	if len(chain) == 0 {
		return ""
	}
	names := append([]string{}, chain[0].DNSNames...)
	for _, ip := range chain[0].IPAddresses {
		names = append(names, ip.String())
	}
	for _, u := range chain[0].URIs {
		names = append(names, u.String())
	}
	return strings.Join(names, ", ")
}

// SpeaksTLS reports whether what listens at host:port answers a client that speaks TLS with a certificate.
func SpeaksTLS(ctx context.Context, addr string) bool {
	seen := false
	config := &tls.Config{MinVersion: tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // nothing is sent, and nothing is believed
		VerifyConnection: func(tls.ConnectionState) error {
			seen = true
			return errSeen
		}}
	err := Probe(ctx, config, addr)
	return seen && err != nil
}

// errSeen ends a handshake in which the server's certificate was seen.
var errSeen = errors.New("seen")
