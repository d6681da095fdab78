package daprtls

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// desk is a service behind the listener: whoever calls says "NAMESPACE/APP" for whom, and is judged.
type desk struct {
	health.UnimplementedHealthServer
	source *Source
	more   chan struct{} // each lets a watcher have one message
}

func (d *desk) Check(ctx context.Context, r *health.HealthCheckRequest) (*health.HealthCheckResponse, error) {
	namespace, app, _ := strings.Cut(r.Service, "/")
	return &health.HealthCheckResponse{}, d.source.Authorize(ctx, namespace, app)
}

func (d *desk) Watch(_ *health.HealthCheckRequest, stream health.Health_WatchServer) error {
	for range d.more {
		if err := stream.Send(&health.HealthCheckResponse{}); err != nil {
			return err
		}
	}
	return nil
}

// listener is a real listener with the identity of a source.
type listener struct {
	tb   testing.TB
	addr string
	desk *desk
}

func listen(tb testing.TB, s *Source) *listener {
	tb.Helper()
	return listenWith(tb, s, s.ServerOptions())
}

func listenWith(tb testing.TB, s *Source, options []grpc.ServerOption) *listener {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	d := &desk{source: s, more: make(chan struct{})}
	server := grpc.NewServer(options...)
	health.RegisterHealthServer(server, d)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	tb.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			tb.Error(err)
		}
	})
	return &listener{tb, l.Addr().String(), d}
}

// client connects as sidecars do: it verifies the listener's certificate, and its name.
func (l *listener) client(anchors []byte, pairs ...tls.Certificate) health.HealthClient {
	l.tb.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(anchors)
	return l.connect(credentials.NewTLS(&tls.Config{
		Certificates: pairs, InsecureSkipVerify: true, ClientSessionCache: tls.NewLRUClientSessionCache(8),
		VerifyConnection: func(state tls.ConnectionState) error {
			issuers := x509.NewCertPool()
			for _, c := range state.PeerCertificates[1:] {
				issuers.AddCert(c)
			}
			if name := state.PeerCertificates[0].URIs[0].String(); name != nodeName {
				return status.Errorf(codes.Unauthenticated, "the server is %s", name)
			}
			_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: issuers})
			return err
		},
	}))
}

func (l *listener) connect(c credentials.TransportCredentials) health.HealthClient {
	l.tb.Helper()
	conn, err := grpc.NewClient(l.addr, grpc.WithTransportCredentials(c))
	if err != nil {
		l.tb.Fatal(err)
	}
	l.tb.Cleanup(func() { _ = conn.Close() })
	return health.NewHealthClient(conn)
}

// call speaks for an app and returns the code of the answer.
func call(tb testing.TB, c health.HealthClient, whom string) codes.Code {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	_, err := c.Check(ctx, &health.HealthCheckRequest{Service: whom})
	return status.Code(err)
}

// fromFiles is a source whose looks are the test's to take.
func fromFiles(tb testing.TB, o Files) (*Source, *files) {
	tb.Helper()
	domains, err := clientDomains(o.ClientTrustDomains)
	if err != nil {
		tb.Fatal(err)
	}
	s, f := newSource(slog.New(slog.DiscardHandler), domains), &files{o: o, anchors: anchorsFile{path: o.CA}}
	if err := f.look(tb.Context(), s); err != nil {
		tb.Fatal(err)
	}
	return s, f
}

func TestWhoMaySpeakForWhom(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	disk := newDisk(t)
	disk.hold(a, leaf(t, nodeName))
	s, _ := fromFiles(t, disk.files())
	l := listen(t, s)
	changed := func(change func(*x509.Certificate)) *x509.Certificate {
		shape := leaf(t, appName)
		change(shape)
		return shape
	}
	for name, c := range map[string]struct {
		pair []tls.Certificate
		want codes.Code
	}{
		"its own":              {[]tls.Certificate{a.pair(leaf(t, appName))}, codes.OK},
		"another trust domain": {[]tls.Certificate{a.pair(leaf(t, "spiffe://elsewhere/ns/shop/orders"))}, codes.OK},
		"another namespace": {[]tls.Certificate{a.pair(leaf(t,
			"spiffe://public/ns/stop/orders"))}, codes.PermissionDenied},
		"another app": {[]tls.Certificate{a.pair(leaf(t, "spiffe://public/ns/shop/order"))},
			codes.PermissionDenied},
		"the control plane": {[]tls.Certificate{a.pair(leaf(t, nodeName))}, codes.PermissionDenied},
		"a longer name":     {[]tls.Certificate{a.pair(leaf(t, appName+"/1"))}, codes.Unauthenticated},
		"a shorter name":    {[]tls.Certificate{a.pair(leaf(t, "spiffe://public/ns/shop"))}, codes.Unauthenticated},
		"a name of another kind": {[]tls.Certificate{a.pair(leaf(t,
			"spiffe://public/sa/shop/orders"))}, codes.Unauthenticated},
		"no name": {[]tls.Certificate{a.pair(leaf(t, ""))}, codes.Unavailable},
		"no SPIFFE name": {[]tls.Certificate{a.pair(leaf(t, "https://public/ns/shop/orders"))},
			codes.Unavailable},
		"no certificate":          {nil, codes.Unavailable},
		"signed by somebody else": {[]tls.Certificate{other.pair(leaf(t, appName))}, codes.Unavailable},
		"ended": {[]tls.Certificate{a.pair(changed(func(c *x509.Certificate) {
			c.NotAfter = time.Now().Add(-time.Second)
		}))}, codes.Unavailable},
		"not begun": {[]tls.Certificate{a.pair(changed(func(c *x509.Certificate) {
			c.NotBefore = time.Now().Add(time.Hour)
		}))}, codes.Unavailable},
		"two names": {[]tls.Certificate{a.pair(changed(func(c *x509.Certificate) {
			c.URIs = append(c.URIs, leaf(t, nodeName).URIs...)
		}))}, codes.Unavailable},
		"an authority of its own": {[]tls.Certificate{a.pair(changed(func(c *x509.Certificate) {
			c.IsCA,
				c.BasicConstraintsValid = true, true
		}))}, codes.Unavailable},
		"a key that signs certificates": {[]tls.Certificate{a.pair(changed(func(c *x509.Certificate) {
			c.KeyUsage |= x509.KeyUsageCertSign
		}))}, codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			if got := call(t, l.client(a.anchors(), c.pair...), "shop/orders"); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
	t.Run("plain text", func(t *testing.T) {
		if got := call(t, l.connect(insecure.NewCredentials()), "shop/orders"); got != codes.Unavailable {
			t.Errorf("%v, want Unavailable", got)
		}
	})
}

func TestOnlySomeTrustDomains(t *testing.T) {
	a := newAuthority(t)
	disk := newDisk(t)
	disk.hold(a, leaf(t, nodeName))
	o := disk.files()
	o.ClientTrustDomains = []string{"public", "prod.example"}
	s, _ := fromFiles(t, o)
	l := listen(t, s)
	for domain, want := range map[string]codes.Code{
		"public": codes.OK, "prod.example": codes.OK, "example": codes.Unavailable, "localhost": codes.Unavailable,
	} {
		pair := a.pair(leaf(t, "spiffe://"+domain+"/ns/shop/orders"))
		if got := call(t, l.client(a.anchors(), pair), "shop/orders"); got != want {
			t.Errorf("%s: %v, want %v", domain, got, want)
		}
	}
}

func TestACallWithoutACertificateSpeaksForNobody(t *testing.T) {
	s := newSource(slog.New(slog.DiscardHandler), nil)
	if got := status.Code(s.Authorize(t.Context(), "shop", "orders")); got != codes.Unauthenticated {
		t.Errorf("%v, want Unauthenticated", got)
	}
}

func TestNobodyConnectsWithoutAnIdentity(t *testing.T) {
	a := newAuthority(t)
	l := listen(t, newSource(slog.New(slog.DiscardHandler), nil))
	if got := call(t, l.client(a.anchors(), a.pair(leaf(t, appName))), "shop/orders"); got != codes.Unavailable {
		t.Errorf("%v, want Unavailable", got)
	}
}

// Connections stay while identity and trust anchors change under them; new ones are judged by what is in
// force, also those of a client that remembers a session.
func TestRotationUnderLiveConnections(t *testing.T) {
	before, after := newAuthority(t), newAuthority(t)
	disk := newDisk(t)
	disk.hold(before, leaf(t, nodeName))
	s, f := fromFiles(t, disk.files())
	l := listen(t, s)
	oldPair, newPair := before.pair(leaf(t, appName)), after.pair(leaf(t, appName))
	live := l.client(before.anchors(), oldPair)
	stream, err := live.Watch(t.Context(), &health.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	hear := func() {
		t.Helper()
		l.desk.more <- struct{}{}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	hear()

	// both are trusted, the identity is the old one
	disk.write(disk.root, append(before.anchors(), after.anchors()...))
	look(t, s, f)
	hear()
	for _, pair := range []tls.Certificate{oldPair, newPair} {
		if got := call(t, l.client(before.anchors(), pair), "shop/orders"); got != codes.OK {
			t.Fatalf("while both authorities are trusted: %v", got)
		}
	}

	disk.hold(after, leaf(t, nodeName)) // only the new one
	look(t, s, f)
	hear()
	if got := call(t, live, "shop/orders"); got != codes.OK {
		t.Errorf("on the connection from before: %v", got)
	}
	if got := call(t, l.client(after.anchors(), oldPair), "shop/orders"); got != codes.Unavailable {
		t.Errorf("a new connection with a certificate of the old authority: %v", got)
	}
	if got := call(t, l.client(after.anchors(), newPair), "shop/orders"); got != codes.OK {
		t.Errorf("a new connection: %v", got)
	}
	close(l.desk.more)
}

func look(tb testing.TB, s *Source, k keeper) {
	tb.Helper()
	if err := k.look(tb.Context(), s); err != nil {
		tb.Fatal(err)
	}
}

// A client that remembers a TLS session must show its certificate again: the session does not outlive its
// authority.
func TestSessionsAreNotResumed(t *testing.T) {
	a := newAuthority(t)
	disk := newDisk(t)
	disk.hold(a, leaf(t, nodeName))
	s, _ := fromFiles(t, disk.files())
	l := listen(t, s)
	config := &tls.Config{Certificates: []tls.Certificate{a.pair(leaf(t, appName))}, InsecureSkipVerify: true,
		NextProtos: []string{"h2"}, ServerName: "node", ClientSessionCache: tls.NewLRUClientSessionCache(8)}
	for range 2 {
		conn, err := tls.Dial("tcp", l.addr, config)
		if err != nil {
			t.Fatal(err)
		}
		// the server's first frame comes after its tickets would
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if conn.ConnectionState().DidResume {
			t.Error("the session was resumed")
		}
		_ = conn.Close()
	}
}
