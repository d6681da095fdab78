package nodetls

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spiffe/go-spiffe/v2/proto/spiffe/workload"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/carillonhq/carillon/server/internal/testing/testca"
)

// agent serves the Workload API: each identity that is sent to it is the one in force from then on.
type agent struct {
	workload.UnimplementedSpiffeWorkloadAPIServer
	identities chan *workload.X509SVIDResponse
}

// FetchX509SVID implements the rpc of the Workload API.
func (a *agent) FetchX509SVID(_ *workload.X509SVIDRequest,
	s grpc.ServerStreamingServer[workload.X509SVIDResponse]) error {
	for {
		select {
		case m := <-a.identities:
			if err := s.Send(m); err != nil {
				return err
			}
		case <-s.Context().Done():
			return nil
		}
	}
}

// identity is an identity with its trust anchors, as the Workload API sends it.
func identity(id string, p testca.Pair, anchors *testca.CA) *workload.X509SVIDResponse {
	der := func(text []byte) []byte {
		block, _ := pem.Decode(text)
		return block.Bytes
	}
	return &workload.X509SVIDResponse{Svids: []*workload.X509SVID{{SpiffeId: id, X509Svid: der(p.Cert),
		X509SvidKey: der(p.Key), Bundle: anchors.Cert.Raw}}}
}

// startAgent serves the Workload API at a socket until the test ends.
func startAgent(t *testing.T) (a *agent, address string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.sock")
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	a = &agent{identities: make(chan *workload.X509SVIDResponse, 1)}
	g := grpc.NewServer()
	workload.RegisterSpiffeWorkloadAPIServer(g, a)
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(l) }()
	t.Cleanup(func() {
		g.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return a, "unix://" + path
}

// TestIdentitiesOfTheWorkloadAPI: who is let in, who is a node, and that a new identity is shown when the API
// has sent it.
func TestIdentitiesOfTheWorkloadAPI(t *testing.T) {
	const node, app = "spiffe://td/node", "spiffe://td/app"
	ca, strangers := testca.New(t), testca.New(t)
	a, address := startAgent(t)
	issue := func() testca.Pair { return ca.Issue(nil, node, host) } // a name of a host, so that meet believes it
	a.identities <- identity(node, issue(), ca)
	s, err := FromWorkloadAPI(t.Context(), Workload{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if s.Anyone() {
		t.Error("clients need an identity")
	}
	for who, c := range map[string]struct {
		shown        []tls.Certificate
		in, by, node bool // let in at gRPC, and by HTTP; a node
	}{
		"nothing":        {nil, false, true, false},
		"a node":         {[]tls.Certificate{issue().TLS(t)}, true, true, true},
		"an app":         {[]tls.Certificate{ca.Issue(nil, app).TLS(t)}, true, true, false},
		"a stranger":     {[]tls.Certificate{strangers.Issue(nil, node).TLS(t)}, false, false, false},
		"another domain": {[]tls.Certificate{ca.Issue(nil, "spiffe://other/node").TLS(t)}, false, false, false},
		"no identity":    {[]tls.Certificate{ca.Issue(nil, host).TLS(t)}, false, false, false},
	} {
		_, accepted, err := meet(t, s.config(false), ca.Pool(), c.shown...)
		if (err == nil) != c.in {
			t.Errorf("%s at gRPC: %v, want it let in: %v", who, err, c.in)
		}
		if _, _, err := meet(t, s.config(true), ca.Pool(), c.shown...); (err == nil) != c.by {
			t.Errorf("%s by HTTP: %v, want it let in: %v", who, err, c.by)
		}
		if !c.in {
			continue
		}
		ctx := peer.NewContext(t.Context(), &peer.Peer{AuthInfo: credentials.TLSInfo{State: accepted}})
		if err := s.Node(ctx); (err == nil) != c.node {
			t.Errorf("%s: %v, want a node: %v", who, err, c.node)
		}
	}
	shown := func() *x509.Certificate {
		t.Helper()
		state, _, err := meet(t, s.config(true), ca.Pool())
		if err != nil {
			t.Fatal(err)
		}
		return state.PeerCertificates[0]
	}
	before := shown()
	updated := s.from.(*workloadOrigin).source.Updated()
	a.identities <- identity(node, issue(), ca)
	<-updated
	if shown().Equal(before) {
		t.Error("the new identity is not shown")
	}
	for name, want := range map[string]bool{"": true, "spiffe://*/node": true, "spiffe://td/nodes": false} {
		a, address := startAgent(t) // whose only caller gets what is sent
		a.identities <- identity(node, issue(), ca)
		s, err := FromWorkloadAPI(t.Context(), Workload{Address: address, PeerName: name})
		if (err == nil) != want {
			t.Errorf("peers called %q: %v", name, err)
		}
		if err == nil {
			s.Close()
		}
	}
}

func TestWrongSettingsOfTheWorkloadAPI(t *testing.T) {
	for address, o := range map[string]Workload{
		"--spiffe":    {Address: "/run/agent.sock"},
		"--peer-name": {Address: "unix:///run/agent.sock", PeerName: "host.example"},
		"whole part":  {Address: "unix:///run/agent.sock", PeerName: "spiffe://td/a*"},
	} {
		if err := o.Validate(names, "--spiffe"); err == nil || !strings.Contains(err.Error(), address) {
			t.Errorf("%+v: %v, want %q", o, err, address)
		}
	}
	if err := (Workload{Address: "tcp://127.0.0.1:8081", PeerName: "spiffe://td/*"}).Validate(names, "x"); err != nil {
		t.Error(err)
	}
}
