package clienttls

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	shape := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a := &authority{t: t, cert: shape, key: newKey(t)}
	a.cert = a.sign(shape, a.key)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	return key
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (a *authority) sign(shape *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, shape, a.cert, key.Public(), a.key)
	check(a.t, err)
	cert, err := x509.ParseCertificate(der)
	check(a.t, err)
	return cert
}

// pair is a certificate for a name: a SPIFFE id, an IP address, or a DNS name; in PEM.
func (a *authority) pair(name string) (cert, key []byte) {
	a.t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	check(a.t, err)
	shape := &x509.Certificate{SerialNumber: serial, NotBefore: time.Now().Add(-time.Minute),
		NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature}
	if u, err := url.Parse(name); err == nil && u.Scheme != "" {
		shape.URIs = []*url.URL{u}
	} else if ip := net.ParseIP(name); ip != nil {
		shape.IPAddresses = []net.IP{ip}
	} else {
		shape.DNSNames = []string{name}
	}
	private := newKey(a.t)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	check(a.t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.sign(shape, private).Raw}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func (a *authority) anchors() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// file writes a file of the test.
func file(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pem")
	check(t, os.WriteFile(path, content, 0o600))
	return path
}

// options are those of a client of that name that trusts the authority.
func (a *authority) options(name, server string) Options {
	a.t.Helper()
	o := Options{CA: file(a.t, a.anchors()), ServerName: server}
	if name != "" {
		cert, key := a.pair(name)
		o.Cert, o.Key = file(a.t, cert), file(a.t, key)
	}
	return o
}

var names = Names{CA: "--ca", Cert: "--cert", Key: "--key", ServerName: "--server-name"}

func TestWrongOptionsAreNamed(t *testing.T) {
	a := newAuthority(t)
	good, other := a.options(nodeID, ""), a.options(nodeID, "")
	text := file(t, []byte("no PEM"))
	for _, c := range []struct {
		o    Options
		want []string
	}{
		{Options{Cert: good.Cert}, []string{"--key: "}},
		{Options{Key: good.Key}, []string{"--cert: "}},
		{Options{Cert: good.Cert, Key: other.Key}, []string{"--cert, --key: "}},
		{Options{Cert: text, Key: good.Key}, []string{"--cert, --key: "}},
		{Options{Cert: "/none", Key: good.Key}, []string{"--cert, --key: ", "/none"}},
		{Options{CA: "/none"}, []string{"--ca: ", "/none"}},
		{Options{CA: text}, []string{"--ca: " + text}},
		{Options{ServerName: nodeID}, []string{"--ca: "}},
		{Options{CA: good.CA, ServerName: "host:7070"}, []string{"--server-name: "}},
		{Options{CA: good.CA, ServerName: "*.example"}, []string{"--server-name: "}},
		{Options{CA: good.CA, ServerName: "https://host"}, []string{"--server-name: "}},
		{Options{CA: good.CA, ServerName: "spiffe://td/a*"}, []string{"--server-name: ", "whole part"}},
		{Options{CA: good.CA, ServerName: "spiffe:td"}, []string{"--server-name: "}},
		{Options{CA: good.CA, ServerName: "spiffe://"}, []string{"--server-name: "}},
		{Options{CA: good.CA, ServerName: "spiffe://td/a/"}, []string{"--server-name: "}},
		{Options{CA: good.CA, ServerName: "SPIFFE://td/a"}, []string{"--server-name: "}},
		{Options{CA: "/none", Cert: good.Cert, ServerName: "spiffe://td//"},
			[]string{"--ca: ", "--key: ", "--server-name: "}},
	} {
		_, err := c.o.Config(names)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: got %v, want %q", c.o, err, want)
			}
		}
	}
	if (Options{}).Given() || !(Options{Key: "k"}).Given() {
		t.Error("what is given")
	}
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, id string
		want        bool
	}{
		{nodeID, nodeID, true},
		{nodeID, "spiffe://cluster.local/ns/dapr-system/dapr-sentry", false},
		{nodeID, nodeID + "/x", false},
		{nodeID, "spiffe://cluster.local/ns/dapr-system", false},
		{"spiffe://*/ns/dapr-system/dapr-scheduler", nodeID, true},
		{"spiffe://*/ns/dapr-system/dapr-scheduler", "spiffe://other/ns/dapr-system/dapr-scheduler", true},
		{"spiffe://cluster.local/ns/*/dapr-scheduler", nodeID, true},
		{"spiffe://cluster.local/ns/*/dapr-scheduler", "spiffe://cluster.local/ns/a/b/dapr-scheduler", false},
		{"spiffe://cluster.local/*", "spiffe://cluster.local/a", true},
		{"spiffe://cluster.local/*", nodeID, false},
		{"spiffe://cluster.local/*", "spiffe://cluster.local", false},
		{"spiffe://cluster.local", "spiffe://cluster.local", true},
		{"spiffe://*", "spiffe://cluster.local", true},
	} {
		matches, err := matcher(c.pattern)
		check(t, err)
		if got := matches(spiffeid.RequireFromString(c.id)) == nil; got != c.want {
			t.Errorf("%s, %s: %v", c.pattern, c.id, got)
		}
	}
}

const (
	nodeID = "spiffe://cluster.local/ns/dapr-system/dapr-scheduler"
	appID  = "spiffe://public/ns/shop/orders"
)

// serve takes connections as a server with a certificate of that name, which says something to each that it
// accepts; it asks for certificates that the clients' authority has signed, if there is one. shown gets the
// names in them.
func (a *authority) serve(name string, clients *authority) (addr string, shown <-chan string) {
	a.t.Helper()
	pair, err := tls.X509KeyPair(a.pair(name))
	check(a.t, err)
	config := &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: alpn, MinVersion: tls.VersionTLS12}
	if clients != nil {
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		config.ClientCAs.AddCert(clients.cert)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	check(a.t, err)
	seen, ended := make(chan string, 100), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c, _ := conn.(*tls.Conn)
			if c.HandshakeContext(context.Background()) == nil {
				for _, peer := range c.ConnectionState().PeerCertificates {
					seen <- namesIn([]*x509.Certificate{peer})
				}
				_, _ = c.Write([]byte("settings"))
			}
			_ = c.Close()
		}
	}()
	a.t.Cleanup(func() {
		check(a.t, l.Close())
		<-ended
	})
	return l.Addr().String(), seen
}

// TestWhoIsReached: the node that is asked for and nobody else, by a SPIFFE id, a DNS name or an IP address.
func TestWhoIsReached(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	for _, c := range []struct {
		node, asked string
		by          *authority
		want        bool
	}{
		{nodeID, nodeID, a, true},
		{nodeID, "spiffe://*/ns/dapr-system/dapr-scheduler", a, true},
		{appID, nodeID, a, false},
		{nodeID, nodeID, other, false},
		{nodeID, "", a, false}, // the host of the address is not in it
		{"127.0.0.1", nodeID, a, false},
		{"127.0.0.1", "", a, true},
		{"node.example", "", a, false},
		{"node.example", "node.example", a, true},
		{"node.example", "other.example", a, false},
		{"node.example", "node.example", other, false},
	} {
		addr, shown := a.serve(c.node, a)
		config, err := c.by.options("", c.asked).Config(names)
		check(t, err)
		cert, key := a.pair(appID)
		o := Options{Cert: file(t, cert), Key: file(t, key)}
		config.GetClientCertificate = o.show
		err = Probe(t.Context(), config, addr)
		if (err == nil) != c.want {
			t.Errorf("%s, asked for %q: %v", c.node, c.asked, err)
		}
		if c.want && <-shown != appID {
			t.Errorf("%s, asked for %q: another certificate was shown", c.node, c.asked)
		}
	}
}

// TestWhatIsShownMayBeRenewed: each connection shows what the files have then, however the node is verified.
func TestWhatIsShownMayBeRenewed(t *testing.T) {
	a := newAuthority(t)
	for node, asked := range map[string]string{nodeID: nodeID, "127.0.0.1": ""} {
		addr, shown := a.serve(node, a)
		o := a.options("before", asked)
		config, err := o.Config(names)
		check(t, err)
		for _, name := range []string{"before", "after"} {
			cert, key := a.pair(name)
			check(t, os.WriteFile(o.Cert, cert, 0o600))
			check(t, os.WriteFile(o.Key, key, 0o600))
			check(t, Probe(t.Context(), config, addr))
			if got := <-shown; got != name {
				t.Errorf("%s: shown %q, want %q", node, got, name)
			}
		}
	}
}

func TestWhyNobodyIsReached(t *testing.T) {
	a := newAuthority(t)
	config, err := a.options("", nodeID).Config(names)
	check(t, err)
	addr, _ := a.serve(nodeID, a)
	if err := Probe(t.Context(), config, addr); !errors.Is(err, ErrRefused) {
		t.Errorf("nothing is shown: %v", err)
	}
	if !SpeaksTLS(t.Context(), addr) {
		t.Error("it speaks TLS")
	}
	plain, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for conn, err := plain.Accept(); err == nil; conn, err = plain.Accept() {
			_, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n"))
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		check(t, plain.Close())
		<-ended
	})
	if err := Probe(t.Context(), config, plain.Addr().String()); !errors.Is(err, ErrNoTLS) {
		t.Errorf("it speaks no TLS: %v", err)
	}
	if SpeaksTLS(t.Context(), plain.Addr().String()) {
		t.Error("it speaks no TLS")
	}
	config, err = a.options("", "").Config(names)
	check(t, err)
	if err := Probe(t.Context(), config, addr); err == nil || !strings.Contains(err.Error(), nodeID) {
		t.Errorf("it does not say whom the certificate names: %v", err)
	}
}
