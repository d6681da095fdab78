package redis_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/testing/servertest"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/redis"
)

// A user who may do what docs/stores.md asks for, on keys of the store's prefix and no others, is enough.
func TestAUserWithFewRights(t *testing.T) {
	r := realserver.StartRedis(t)
	o := fresh(r)
	o.Username, o.Password = "carillon", "a secret"
	if _, err := redis.Open(t.Context(), o); err == nil || strings.Contains(err.Error(), o.Password) {
		t.Errorf("open without an account: %v", err)
	}
	r.Do(t, "ACL", "SETUSER", o.Username, "on", ">"+o.Password, "~{"+o.Prefix+"}:*", "~{"+o.Prefix+":*",
		"+@connection", "+@scripting", "+@hash", "+@sortedset", "+exists", "+info", "+time", "+cluster|slots")
	s := open(t, o)
	sh, held := servertest.Own(t, s, 3)
	servertest.Want(t, "put", sh, servertest.Batch("a"), store.Applied)
	servertest.WantNames(t, sh, "a")
	l := s.Leaser()
	if err := l.Join(t.Context(), store.Member{ID: "n"}, servertest.Lease); err != nil {
		t.Error(err)
	}
	if m, err := l.Members(t.Context()); err != nil || len(m) != 1 {
		t.Errorf("members %v, %v", m, err)
	}
	if _, err := l.Now(t.Context()); err != nil {
		t.Error(err)
	}
	if err := l.Release(t.Context(), "node", []store.Holding{held}); err != nil {
		t.Error(err)
	}
	o.Addresses, o.Sentinel = []string{realserver.StartSentinel(t, "main", r).Address()}, "main"
	if _, err := redis.Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "'role'") {
		t.Errorf("open by a sentinel without the right to ROLE: %v", err)
	}
	r.Do(t, "ACL", "SETUSER", o.Username, "+role")
	servertest.WantNames(t, servertest.Shard(t, open(t, o), 3, held.Term), "a")
}

// Connections are made by TLS if that is asked for, and to a server of a trusted certificate only.
func TestTLS(t *testing.T) {
	certificate, key, roots := realserver.Authority(t)
	port := realserver.Port(t)
	realserver.StartRedis(t, fmt.Sprint("tls-port=", port), "tls-cert-file="+certificate, "tls-key-file="+key,
		"tls-ca-cert-file="+certificate, "tls-auth-clients=no")
	o := fresh()
	o.Addresses = []string{net.JoinHostPort("127.0.0.1", fmt.Sprint(port))}
	o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if _, err := redis.Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("open with a certificate that nobody knows: %v", err)
	}
	_, _, others := realserver.Authority(t)
	o.TLS.RootCAs = others
	if _, err := redis.Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("open with a certificate of another authority: %v", err)
	}
	o.TLS.RootCAs, o.TLS.ServerName = roots, "redis.example"
	if _, err := redis.Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "redis.example") {
		t.Errorf("open with a certificate of another host: %v", err)
	}
	o.TLS.ServerName = ""
	sh, _ := servertest.Own(t, open(t, o), 3)
	servertest.Want(t, "put", sh, servertest.Batch("a"), store.Applied)
	servertest.WantNames(t, sh, "a")
}

// The files that a URL names are used: a server of a private authority that wants a certificate of its
// clients.
func TestTLSOfAURL(t *testing.T) {
	certificate, key, _ := realserver.Authority(t)
	port := realserver.Port(t)
	realserver.StartRedis(t, fmt.Sprint("tls-port=", port), "tls-cert-file="+certificate, "tls-key-file="+key,
		"tls-ca-cert-file="+certificate, "tls-auth-clients=yes")
	at := fmt.Sprintf("rediss://127.0.0.1:%d?prefix=%s", port, fresh().Prefix)
	through := func(query string) (*redis.Store, error) {
		o, err := redis.ParseURL(at + query)
		if err != nil {
			t.Fatal(err)
		}
		return redis.Open(t.Context(), o)
	}
	for query, what := range map[string]string{
		"": "a private authority", "&sslrootcert=" + certificate: "a server that wants a certificate",
		"&sslcert=" + certificate + "&sslkey=" + key: "a private authority, with a certificate",
	} {
		if s, err := through(query); err == nil {
			t.Errorf("%s: it opens", what)
			_ = s.Close()
		}
	}
	s, err := through("&sslrootcert=" + certificate + "&sslcert=" + certificate + "&sslkey=" + key)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sh, _ := servertest.Own(t, s, 3)
	servertest.Want(t, "put", sh, servertest.Batch("a"), store.Applied)
}

// Files that cannot be used are an error that names the parameter, before anything is connected to.
func TestTLSFilesRefused(t *testing.T) {
	certificate, key, _ := realserver.Authority(t)
	_, other, _ := realserver.Authority(t)
	for query, want := range map[string]string{
		"rediss://h?sslrootcert=/nowhere":                               "sslrootcert of the URL of Redis: open /nowhere",
		"rediss://h?sslrootcert=" + key:                                 "sslrootcert of the URL of Redis: there is no certificate",
		"rediss://h?sslcert=" + certificate:                             "belong together",
		"rediss://h?sslkey=" + key:                                      "belong together",
		"rediss://h?sslcert=/nowhere&sslkey=" + key:                     "sslcert and sslkey of the URL of Redis: open /nowhere",
		"rediss://h?sslcert=" + certificate + "&sslkey=" + other:        "sslcert and sslkey of the URL of Redis",
		"redis://h?sslrootcert=" + certificate:                          "begins with rediss://",
		"redis://h?sslcert=" + certificate + "&sslkey=" + key:           "begins with rediss://",
		"rediss://u:secret@h?sslcert=" + certificate + "&sslkey=/secre": "open /secre",
	} {
		if _, err := redis.ParseURL(query); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "secret@") {
			t.Errorf("%s: %v", query, err)
		}
	}
}
