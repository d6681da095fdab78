package natsbroker

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/testing/testca"
)

// TestTLS is with certificates of the server and of the client. Where one of them is wrong, or either side speaks
// no TLS, nothing is sent, and the reason says what is wrong.
func TestTLS(t *testing.T) {
	issuer, stranger := testca.New(t), testca.New(t)
	ended := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Second) }
	own := issuer.Issue(nil, "client").TLS(t)
	theirs := []tls.Certificate{stranger.Issue(nil, "client").TLS(t)}
	good := &tls.Config{RootCAs: issuer.Pool(), Certificates: []tls.Certificate{own}}
	changed := func(f func(*tls.Config)) *tls.Config {
		c := good.Clone()
		f(c)
		return c
	}
	start := func(shows testca.Pair) string {
		o := jetStream(t)
		o.TLS, o.TLSVerify = true, true
		o.TLSTimeout = patience.Seconds()
		o.TLSConfig = &tls.Config{Certificates: []tls.Certificate{shows.TLS(t)}, ClientCAs: issuer.Pool(),
			ClientAuth: tls.RequireAndVerifyClientCert}
		return addressOf(startServer(t, o))
	}
	secured := start(issuer.Issue(nil, "127.0.0.1", "nats"))
	expired := start(issuer.Issue(ended, "127.0.0.1", "nats"))
	open := addressOf(startServer(t, natsserver.Options{}))
	// in TLS 1.3 a server refuses a client's certificate after the handshake: its reason may be lost with its end
	for name, c := range map[string]struct {
		address string
		tls     *tls.Config
		want    string
	}{
		"good":        {secured, good, "no stream"}, // it has come as far as JetStream
		"wrong roots": {secured, changed(func(c *tls.Config) { c.RootCAs = stranger.Pool() }), "unknown authority"},
		"wrong name":  {secured, changed(func(c *tls.Config) { c.ServerName = "other" }), "valid for nats, not other"},
		"its name":    {secured, changed(func(c *tls.Config) { c.ServerName = "nats" }), "no stream"},
		"expired":     {expired, good, "expired"},
		"no client's": {secured, changed(func(c *tls.Config) { c.Certificates = nil }), "tls"},
		"stranger":    {secured, changed(func(c *tls.Config) { c.Certificates = theirs }), "tls"},
		"without TLS": {secured, nil, "unknown authority"}, // the server asks for it

		"server's lack": {open, good, "secure connection not available"},
	} {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, Options{Addresses: []string{c.address}, TLS: c.tls})
			err := publish(t, client, message("0", "nowhere", 1))[0]
			kind := broker.ErrUnsent
			if c.want == "no stream" {
				kind = broker.ErrRefused
			}
			if !errors.Is(err, kind) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want it to say %q", err, c.want)
			}
		})
	}
}
