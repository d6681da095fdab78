package redisbroker

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/testing/testca"
)

// TestTLS is with certificates of the server and of the client. Where one of them is wrong, or either side speaks
// no TLS, nothing is sent, and the reason says what is wrong.
func TestTLS(t *testing.T) {
	issuer, stranger := testca.New(t), testca.New(t)
	certificate, key := issuer.Issue(nil, "127.0.0.1", "redis").Files(t)
	ended := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Second) }
	lateCertificate, lateKey := issuer.Issue(ended, "127.0.0.1", "redis").Files(t)
	port := realserver.Port(t)
	r := realserver.StartRedis(t, fmt.Sprint("tls-port=", port), "tls-cert-file="+certificate,
		"tls-key-file="+key, "tls-ca-cert-file="+issuer.File, "tls-auth-clients=yes")
	secured := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	own := issuer.Issue(nil, "client").TLS(t)
	theirs := []tls.Certificate{stranger.Issue(nil, "client").TLS(t)}
	good := &tls.Config{RootCAs: issuer.Pool(), Certificates: []tls.Certificate{own}}
	changed := func(f func(*tls.Config)) *tls.Config {
		c := good.Clone()
		f(c)
		return c
	}
	expects := func(t *testing.T, address string, config *tls.Config, want string) {
		t.Helper()
		c := newClient(t, Options{Addresses: []string{address}, TLS: config})
		err := publish(t, c, message("0", "runs", 1))[0]
		switch {
		case want == "" && err != nil:
			t.Error(err)
		case want != "" && (!errors.Is(err, broker.ErrUnsent) || !strings.Contains(err.Error(), want)):
			t.Errorf("%v; want it to say %q", err, want)
		}
	}
	// in TLS 1.3 a server refuses a client's certificate after the handshake: its reason may be lost with its end
	cases := map[string]struct {
		address string
		tls     *tls.Config
		want    string
	}{
		"good":          {secured, good, ""},
		"wrong roots":   {secured, changed(func(c *tls.Config) { c.RootCAs = stranger.Pool() }), "unknown authority"},
		"wrong name":    {secured, changed(func(c *tls.Config) { c.ServerName = "other" }), "valid for redis, not other"},
		"its name":      {secured, changed(func(c *tls.Config) { c.ServerName = "redis" }), ""},
		"no client's":   {secured, changed(func(c *tls.Config) { c.Certificates = nil }), "PING"},
		"stranger":      {secured, changed(func(c *tls.Config) { c.Certificates = theirs }), "PING"},
		"without TLS":   {secured, nil, "connect"},
		"server's lack": {r.Address(), good, "TLS"}, // it says nothing
	}
	t.Run("cases", func(t *testing.T) {
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				expects(t, c.address, c.tls, c.want)
			})
		}
	})
	t.Run("expired", func(t *testing.T) {
		r.Do(t, "CONFIG", "SET", "tls-cert-file", lateCertificate, "tls-key-file", lateKey)
		expects(t, secured, good, "expired")
	})
	if n := r.Do(t, "XLEN", "runs"); n != "2" {
		t.Errorf("%s entries, want those of the two that are right", n)
	}
}
