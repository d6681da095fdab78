package storeurl_test

import (
	"crypto/tls"
	"crypto/x509"
	"testing"

	"github.com/carillonhq/carillon/server/store/storeurl"
)

func TestUnverified(t *testing.T) {
	verified := &tls.Config{}
	blind := &tls.Config{InsecureSkipVerify: true}
	own := &tls.Config{InsecureSkipVerify: true,
		VerifyPeerCertificate: func([][]byte, [][]*x509.Certificate) error { return nil }}
	for _, c := range []struct {
		config  *tls.Config
		address string
		want    string
	}{
		{nil, "db.example:5432", "db.example"}, {nil, "db.example", "db.example"}, {nil, "10.0.0.7:1", "10.0.0.7"},
		{nil, "[2001:db8::1]:1", "2001:db8::1"}, {nil, "2001:db8::1", "2001:db8::1"},
		{nil, "localhost:1", ""}, {nil, "127.0.0.2:1", ""}, {nil, "[::1]:1", ""}, {nil, "::1", ""}, {nil, "/run/postgres", ""},
		{nil, "[::ffff:127.0.0.1]:1", ""},
		{blind, "db.example:1", "db.example"}, {blind, "localhost", ""},
		{verified, "db.example:1", ""}, {own, "db.example:1", ""},
	} {
		if got := storeurl.Unverified(c.config, "localhost:1", c.address); got != c.want {
			t.Errorf("%v %s: %q, want %q", c.config, c.address, got, c.want)
		}
	}
}
