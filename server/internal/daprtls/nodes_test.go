package daprtls

import (
	"crypto/tls"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
)

// meet serves the other nodes with the identity of a source.
func meet(tb testing.TB, s *Source) *listener {
	tb.Helper()
	return listenWith(tb, s, s.NodeServerOptions())
}

// asNode connects as another node does.
func (l *listener) asNode(s *Source) health.HealthClient {
	l.tb.Helper()
	conn, err := grpc.NewClient(l.addr, s.NodeDialOptions()...)
	if err != nil {
		l.tb.Fatal(err)
	}
	l.tb.Cleanup(func() { _ = conn.Close() })
	return health.NewHealthClient(conn)
}

// reaches reports whether a call gets through.
func reaches(tb testing.TB, c health.HealthClient) bool {
	tb.Helper()
	switch code := call(tb, c, "dapr-system/dapr-scheduler"); code {
	case codes.OK:
		return true
	case codes.Unavailable:
		return false
	default:
		tb.Fatalf("the call ended with %v", code)
		return false
	}
}

// node is an identity in files of the test.
func node(tb testing.TB, a *authority, name string) (disk, *Source, *files) {
	tb.Helper()
	d := newDisk(tb)
	d.hold(a, leaf(tb, name))
	o := d.files()
	o.ClientTrustDomains = []string{"public"} // sidecars' only: it shuts no node out
	s, f := fromFiles(tb, o)
	return d, s, f
}

// TestOnlyNodesMeet: the control plane's schedulers have one name, and nobody else reaches them or is taken for one.
func TestOnlyNodesMeet(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	_, one, _ := node(t, a, nodeName)
	_, two, _ := node(t, a, nodeName)
	l := meet(t, one)
	if !reaches(t, l.asNode(two)) {
		t.Error("another node does not get in")
	}
	for what, name := range map[string]string{
		"a sidecar": appName, "a sidecar of the control plane's namespace": "spiffe://localhost/ns/dapr-system/orders",
		"an app of the same name":       "spiffe://public/ns/dapr-system/dapr-scheduler",
		"a scheduler of another system": "spiffe://localhost/ns/dapr-2/dapr-scheduler",
		"sentry":                        sentryName, "a longer name": nodeName + "/x",
	} {
		if reaches(t, l.client(a.anchors(), a.pair(leaf(t, name)))) {
			t.Errorf("%s gets in", what)
		}
	}
	for what, c := range map[string]credentials.TransportCredentials{
		"plain text":     insecure.NewCredentials(),
		"no certificate": credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}),
		"somebody else's authority": credentials.NewTLS(&tls.Config{InsecureSkipVerify: true,
			Certificates: []tls.Certificate{other.pair(leaf(t, nodeName))}}),
	} {
		if reaches(t, l.connect(c)) {
			t.Errorf("%s gets in", what)
		}
	}
	for what, pair := range map[string]tls.Certificate{"a sidecar": a.pair(leaf(t, appName)),
		"somebody else's authority": other.pair(leaf(t, nodeName))} {
		anybody := listenWith(t, one, []grpc.ServerOption{grpc.Creds(credentials.NewTLS(&tls.Config{
			Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert}))})
		if reaches(t, anybody.asNode(two)) {
			t.Errorf("%s is taken for a node", what)
		}
	}
}

// TestNodesRenew: a new connection is made with what is in force then, on both sides, also under new trust anchors; one
// that there is goes on.
func TestNodesRenew(t *testing.T) {
	before, after := newAuthority(t), newAuthority(t)
	d1, one, f1 := node(t, before, nodeName)
	d2, two, f2 := node(t, before, nodeName)
	l := meet(t, one)
	live := l.asNode(two)
	if !reaches(t, live) {
		t.Fatal("before")
	}
	d1.hold(after, leaf(t, nodeName))
	if err := f1.look(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	if reaches(t, l.asNode(two)) {
		t.Error("a node gets in whose authority is not trusted any more")
	}
	d2.hold(after, leaf(t, nodeName))
	if err := f2.look(t.Context(), two); err != nil {
		t.Fatal(err)
	}
	if !reaches(t, l.asNode(two)) {
		t.Error("after both have renewed")
	}
	if !reaches(t, live) {
		t.Error("the connection from before is cut")
	}
}
