package nodetls

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/carillonhq/carillon/server/internal/testing/testca"
)

var names = Names{Cert: "--cert", Key: "--key", ClientCA: "--client-ca", PeerCA: "--peer-ca", PeerName: "--peer-name"}

const host = "node.example"

// log keeps lines.
type log struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *log) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

func (l *log) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// filesOf are those of a node with a pair.
func filesOf(t *testing.T, p testca.Pair) Files {
	t.Helper()
	cert, key := p.Files(t)
	return Files{Cert: cert, Key: key}
}

func from(t *testing.T, o Files) *Source {
	t.Helper()
	s, err := FromFiles(o, names)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestWrongFilesAreNamed(t *testing.T) {
	a, other := testca.New(t), testca.New(t)
	good := filesOf(t, a.Issue(nil, host))
	with := func(change func(*Files)) Files {
		o := good
		change(&o)
		return o
	}
	usage := func(u x509.ExtKeyUsage) Files {
		return filesOf(t, a.Issue(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{u} }, host))
	}
	late := filesOf(t, a.Issue(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Second) }, host))
	early := filesOf(t, a.Issue(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }, host))
	peers := func(o Files) Files { o.Peers.CA = a.File; return o }
	for what, c := range map[string]struct {
		o    Files
		want []string
	}{
		"no files":    {Files{Cert: "/none", Key: "/no"}, []string{"--cert: ", "/none", "--key: ", "/no"}},
		"another key": {with(func(o *Files) { _, o.Key = a.Issue(nil, host).Files(t) }), []string{"--cert", "--key", "match"}},
		"no PEM": {with(func(o *Files) { o.ClientCA, o.Peers.CA = o.Key, o.Key }),
			[]string{"--client-ca: " + good.Key, "--peer-ca: " + good.Key, "no certificate"}},
		"ended":         {late, []string{"--cert", late.Cert, "has ended"}},
		"not valid yet": {early, []string{"--cert", early.Cert, "not valid yet"}},
		"signed by another": {with(func(o *Files) { o.Peers.CA = other.File }),
			[]string{"--cert", "--peer-ca", other.File, "other nodes would refuse this one"}},
		"no client": {peers(usage(x509.ExtKeyUsageServerAuth)), []string{"--cert", "clientAuth"}},
		"no server": {peers(usage(x509.ExtKeyUsageClientAuth)), []string{"--cert", "serverAuth"}},
		"wrong name": {with(func(o *Files) { o.Peers = Peers{CA: a.File, Name: "spiffe://td/a*"} }),
			[]string{"--peer-name: ", "whole part"}},
		"not that name": {with(func(o *Files) { o.Peers = Peers{CA: a.File, Name: "nodes.example"} }),
			[]string{"--cert", host, "nodes.example"}},
		"not that id": {with(func(o *Files) { o.Peers = Peers{CA: a.File, Name: "spiffe://td/node"} }),
			[]string{"--cert", "SPIFFE"}},
	} {
		_, err := FromFiles(c.o, names)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", what, err, want)
			}
		}
	}
	if s := from(t, peers(good)); s.Reachable(host+":7070") != nil || s.Reachable("other.example:7070") == nil {
		t.Error("the address must be one that the certificate names")
	}
}

// meet has a client connect; it returns what the client and the server make of it.
func meet(t *testing.T, server *tls.Config, roots *x509.CertPool, shown ...tls.Certificate) (
	client, accepted tls.ConnectionState, err error) {
	t.Helper()
	here, there := net.Pipe()
	c := tls.Client(here, &tls.Config{RootCAs: roots, ServerName: host, NextProtos: []string{"h2"},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if len(shown) == 0 {
				return &tls.Certificate{}, nil
			}
			return &shown[0], nil
		}})
	s := tls.Server(there, server)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if s.HandshakeContext(context.Background()) == nil {
			_, _ = s.Write([]byte("x")) // the client sees what becomes of it
		}
		_ = there.Close()
	}()
	if err = c.HandshakeContext(t.Context()); err == nil {
		_, err = c.Read(make([]byte, 1)) // a server judges after the client is done
	}
	_ = here.Close()
	<-ended
	return c.ConnectionState(), s.ConnectionState(), err
}

// TestWhoIsLetIn at the two listeners, with every combination of authorities.
func TestWhoIsLetIn(t *testing.T) {
	clients, nodes, strangers := testca.New(t), testca.New(t), testca.New(t)
	o := filesOf(t, nodes.Issue(nil, host))
	shown := map[string][]tls.Certificate{"nothing": nil, "client": {clients.Issue(nil, "c").TLS(t)},
		"node": {nodes.Issue(nil, host).TLS(t)}, "stranger": {strangers.Issue(nil, host).TLS(t)}}
	for what, c := range map[string]struct {
		clientCA, peerCA string
		grpc, http       string // who is let in; of HTTP by the handshake
	}{
		"no authority":   {"", "", "nothing client node stranger", "nothing client node stranger"}, // nothing is asked for
		"of clients":     {clients.File, "", "client", "nothing client"},
		"of nodes":       {"", nodes.File, "nothing node", "nothing client node stranger"},
		"of both":        {clients.File, nodes.File, "client node", "nothing client node"},
		"one for both":   {nodes.File, nodes.File, "node", "nothing node"},
		"nodes' clients": {nodes.File, "", "node", "nothing node"},
	} {
		o.ClientCA, o.Peers.CA = c.clientCA, c.peerCA
		s := from(t, o)
		if s.Anyone() != (c.clientCA == "") {
			t.Errorf("%s: anyone %v", what, s.Anyone())
		}
		for face, want := range map[bool]string{false: c.grpc, true: c.http} {
			for who, pair := range shown {
				_, _, err := meet(t, s.config(face), nodes.Pool(), pair...)
				if let := strings.Contains(want, who); let != (err == nil) {
					t.Errorf("%s, HTTP %v: %s is let in: %v, want %v (%v)", what, face, who, err == nil, let, err)
				}
			}
		}
	}
}

// TestWhoIsANode: whom the nodes' authority has signed for, and who has their name.
func TestWhoIsANode(t *testing.T) {
	clients, nodes := testca.New(t), testca.New(t)
	const id, pattern = "spiffe://td/ns/a/node", "spiffe://td/ns/*/node"
	own := filesOf(t, nodes.Issue(nil, host, id))
	own.ClientCA = clients.File
	for _, c := range []struct {
		by, name string
		pair     testca.Pair
		want     bool
	}{
		{nodes.File, "", nodes.Issue(nil, "other.example"), true},
		{nodes.File, "", clients.Issue(nil, host), false},
		{nodes.File, host, nodes.Issue(nil, host), true},
		{nodes.File, host, nodes.Issue(nil, "other.example"), false},
		{nodes.File, pattern, nodes.Issue(nil, "spiffe://td/ns/b/node"), true},
		{nodes.File, pattern, nodes.Issue(nil, "spiffe://td/ns/b/app"), false},
		{nodes.File, pattern, nodes.Issue(nil, host), false},
		{nodes.File, pattern, clients.Issue(nil, id), false},
	} {
		own.Peers = Peers{CA: c.by, Name: c.name}
		s := from(t, own)
		_, accepted, err := meet(t, s.config(false), nodes.Pool(), c.pair.TLS(t))
		if err != nil {
			t.Fatal(err)
		}
		ctx := peer.NewContext(t.Context(), &peer.Peer{AuthInfo: credentials.TLSInfo{State: accepted}})
		if err := s.Node(ctx); (err == nil) != c.want {
			t.Errorf("%q: %v, want a node %v", c.name, err, c.want)
		}
	}
	s := from(t, own)
	if s.Node(t.Context()) == nil || s.Node(peer.NewContext(t.Context(), &peer.Peer{})) == nil {
		t.Error("a caller without TLS is taken for a node")
	}
}

// TestFilesAreReadAgain: connections use what the files hold then, unless it is wrong.
func TestFilesAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := testca.New(t), testca.New(t)
		lines := &log{}
		o := filesOf(t, a.Issue(nil, host))
		o.ClientCA, o.Log = filesOf(t, testca.Pair{Cert: a.PEM()}).Cert, lines.logger()
		s := from(t, o)
		client := a.Issue(nil, "client").TLS(t)
		met := func(roots *x509.CertPool) string {
			t.Helper()
			<-time.After(2*poll + time.Millisecond)
			state, _, err := meet(t, s.config(false), roots, client)
			if err != nil {
				return err.Error()
			}
			return state.PeerCertificates[0].SerialNumber.String()
		}
		first := met(a.Pool())
		second := a.Issue(nil, host)
		testca.Write(t, o.Key, second.Key)
		<-time.After(poll / 10)
		testca.Write(t, o.Cert, second.Cert)
		renewed := met(a.Pool())
		if renewed == first || strings.Contains(renewed, " ") {
			t.Errorf("after a renewal: %s, before: %s", renewed, first)
		}
		renewedAgain := a.Issue(nil, host)
		ended := a.Issue(func(c *x509.Certificate) { c.NotAfter = time.Now() }, host)
		for what, pair := range map[string]testca.Pair{"half a file": {Cert: second.Cert[:100], Key: second.Key},
			"half a chain": {Cert: slices.Concat(renewedAgain.Cert, a.PEM()[:100]), Key: renewedAgain.Key},
			"nothing":      {}, "of another key": {Cert: second.Cert, Key: ended.Key}, "ended": ended} {
			testca.Write(t, o.Cert, pair.Cert)
			testca.Write(t, o.Key, pair.Key)
			before := lines.count("stays in force")
			if got := met(a.Pool()); got != renewed {
				t.Errorf("%s: %s", what, got)
			}
			met(a.Pool())
			if n := lines.count("stays in force") - before; n != 1 {
				t.Errorf("%s: logged %d times", what, n)
			}
			testca.Write(t, o.Cert, second.Cert)
			testca.Write(t, o.Key, second.Key)
			met(a.Pool())
		}
		if err := os.Remove(o.Cert); err != nil {
			t.Fatal(err)
		}
		if got := met(a.Pool()); got != renewed {
			t.Errorf("removed: %s", got)
		}
		testca.Write(t, o.Cert, second.Cert)
		testca.Write(t, o.ClientCA, slices.Concat(b.PEM(), a.PEM()[:100]))
		if got := met(a.Pool()); got != renewed {
			t.Errorf("half an authority, after another: %s", got)
		}
		testca.Write(t, o.ClientCA, b.PEM())
		if got := met(a.Pool()); !strings.Contains(got, "unknown certificate authority") {
			t.Errorf("the client's authority is not believed any more, and it is let in: %s", got)
		}
		if lines.count("BEGIN") > 0 {
			t.Error("the log has contents of files")
		}
	})
}

// TestACertificateMustNameTheHost at which other nodes reach this one, also when it is replaced.
func TestACertificateMustNameTheHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, lines := testca.New(t), &log{}
		o := filesOf(t, a.Issue(nil, host))
		o.Peers.CA, o.Log = a.File, lines.logger()
		s := from(t, o)
		if err := s.Reachable(host + ":7070"); err != nil {
			t.Fatal(err)
		}
		replace := func(names ...string) (at *x509.Certificate) {
			t.Helper()
			next := a.Issue(nil, names...)
			testca.Write(t, o.Key, next.Key)
			testca.Write(t, o.Cert, next.Cert)
			<-time.After(2*poll + time.Millisecond)
			leaf, err := s.from.leaf()
			if err != nil {
				t.Fatal(err)
			}
			return leaf
		}
		if leaf := replace("other.example"); leaf.VerifyHostname(host) != nil {
			t.Error("a certificate that names another host is in force")
		}
		if lines.count("stays in force") != 1 || lines.count("not "+host) != 1 {
			t.Errorf("the log does not say why: %s", lines.text.String())
		}
		if leaf := replace("new.example", host); leaf.VerifyHostname("new.example") != nil {
			t.Error("a certificate that names the host is not in force")
		}
	})
}

// TestAFaultWithTheTimeInItIsLogged once: the error of each look is another one.
func TestAFaultWithTheTimeInItIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, lines := testca.New(t), &log{}
		long := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(100 * time.Hour) }
		o := filesOf(t, a.Issue(long, host))
		o.Peers.CA, o.Log = a.File, lines.logger()
		<-time.After(24*time.Hour - 10*poll)
		from(t, o)
		<-time.After(20 * poll) // the authority has ended meanwhile
		next := a.Issue(long, host)
		testca.Write(t, o.Key, next.Key)
		testca.Write(t, o.Cert, next.Cert)
		<-time.After(10 * poll)
		if n := lines.count("stays in force"); n != 1 || lines.count("is after") != 1 {
			t.Errorf("logged %d times: %s", n, lines.text.String())
		}
	})
}

// TestTheEndOfACertificateIsLogged once; a certificate that ends while the node runs is not an error of files.
func TestTheEndOfACertificateIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := &log{}
		o := filesOf(t, testca.New(t).Issue(nil, host))
		o.Log = lines.logger()
		from(t, o)
		<-time.After(2 * time.Hour)
		if n := lines.count("has ended"); n != 1 {
			t.Errorf("logged %d times", n)
		}
	})
}
