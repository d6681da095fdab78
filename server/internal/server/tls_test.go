package server_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/carillonhq/carillon"
	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/nodetls"
	"github.com/carillonhq/carillon/server/internal/peer"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/testing/testca"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/worker"
)

// tlsOf makes the credentials of a node from files.
func tlsOf(t *testing.T, f nodetls.Files) *server.Credentials {
	t.Helper()
	s, err := nodetls.FromFiles(f, nodetls.Names{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return &server.Credentials{Server: s.GRPC(), Dial: s.Dial(), Clients: &server.Clients{HTTP: s.HTTP(),
		Anyone: s.Anyone(), Client: s.Client, Node: s.Node, Reachable: s.Reachable}}
}

// clientTLS is that of a client of nodes on 127.0.0.1.
func clientTLS(nodes *testca.CA, shown ...tls.Certificate) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: nodes.Pool(), Certificates: shown}
}

// secured is a cluster in which everybody shows a certificate, beside a PostgreSQL that shows
// one, too.
type secured struct {
	clients, peers *testca.CA
	files          []nodetls.Files
	nodes          []*server.Server
	store          string
}

func startSecured(t *testing.T, nodes int) *secured {
	t.Helper()
	x := &secured{clients: testca.New(t), peers: testca.New(t)}
	db := testca.New(t)
	url := realserver.StartPostgresTLS(t, db.Issue(nil, "127.0.0.1"), realserver.Volatile()...).Database(t)
	x.store = strings.TrimSuffix(url, "disable") + "verify-full&sslrootcert=" + db.File
	for i := range nodes {
		f := nodetls.Files{ClientCA: x.clients.File, Peers: nodetls.Peers{CA: x.peers.File}}
		f.Cert, f.Key = x.peers.Issue(nil, "127.0.0.1").Files(t)
		x.files = append(x.files, f)
		x.nodes = append(x.nodes, serve(t, server.Config{Store: x.store, Partitions: 16, Name: fmt.Sprint("node-", i),
			Credentials: tlsOf(t, f)}))
	}
	spread(t, x.nodes[0], nodes)
	return x
}

// fresh connects to a node as a client with a certificate.
func (x *secured) fresh(i int, shown tls.Certificate, opts ...client.Option) (*client.Client, error) {
	return client.Dial(x.nodes[i].GRPCAddr(),
		append(opts, client.WithTransportCredentials(credentials.NewTLS(clientTLS(x.peers, shown))))...)
}

// dial is fresh for as long as the test.
func (x *secured) dial(t *testing.T, i int, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := x.fresh(i, x.clients.Issue(nil, "client").TLS(t), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// renew replaces the certificates of all nodes; each loop of the load then sees new ones.
func (x *secured) renew(t *testing.T) {
	t.Helper()
	for _, f := range x.files {
		p := x.peers.Issue(nil, "127.0.0.1")
		testca.Write(t, f.Key, p.Key)
		testca.Write(t, f.Cert, p.Cert)
	}
}

// shown returns the serial number of the certificate that a node shows.
func (x *secured) shown(t *testing.T, i int) string {
	t.Helper()
	conn, err := tls.Dial("tcp", x.nodes[i].HTTPAddr(), clientTLS(x.peers))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// put puts a job over a connection that is kept, or over a fresh one, which it then closes.
func (x *secured) put(ctx context.Context, i int, kept *client.Client, shown tls.Certificate, fresh bool, job carillon.Job) error {
	if !fresh {
		_, err := kept.PutJob(ctx, job)
		return err
	}
	c, err := x.fresh(i, shown)
	if err != nil {
		return err
	}
	_, err = c.PutJob(ctx, job)
	return errors.Join(err, c.Close())
}

// TestCertificatesAreReplacedUnderLoad in a cluster with mTLS everywhere: no call fails, over old connections
// and new ones, and through nodes that pass calls on; workers get what they should.
func TestCertificatesAreReplacedUnderLoad(t *testing.T) {
	x := startSecured(t, 3)
	var done atomic.Int64
	w := worker.New(x.dial(t, 0, client.WithOneAddress()), worker.Options{}) // by sessions of its node with the others
	worker.Handle(w, queue, func(context.Context, carillon.Run, []byte) error {
		done.Add(1)
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	stop, put := make(chan struct{}), atomic.Int64{}
	var load sync.WaitGroup
	endLoad := sync.OnceFunc(func() {
		close(stop)
		load.Wait()
	})
	shown := x.clients.Issue(nil, "client").TLS(t)
	for i := range x.nodes {
		kept := x.dial(t, i)
		t.Cleanup(endLoad) // before kept is closed
		load.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				job := carillon.Job{Name: fmt.Sprintf("load/%d/%d", i, n), Due: carillon.In(0), Target: carillon.WorkerQueue(queue)}
				if err := x.put(t.Context(), i, kept, shown, n%2 == 0, job); err != nil {
					if t.Context().Err() == nil { // otherwise the test has ended before
						t.Errorf("put %d through node %d: %v", n, i, err)
					}
					return
				}
				put.Add(1)
			}
		})
	}
	for range 2 {
		var before []string
		for i := range x.nodes {
			before = append(before, x.shown(t, i))
		}
		x.renew(t)
		for i := range x.nodes {
			eventually(t, "the node shows another certificate", func() bool { return x.shown(t, i) != before[i] })
		}
		at := put.Load()
		eventually(t, "calls go on", func() bool { return put.Load() > at+30 || t.Failed() })
	}
	endLoad()
	eventually(t, "all runs are done", func() bool { return done.Load() >= put.Load() })
	cancel()
	if err := await(t, ended); err != nil {
		t.Error(err)
	}
	t.Logf("%d jobs put and run", put.Load())
}

// TestWhoMayCallNodes: the services between nodes are for nodes, whatever else a caller knows; the others are
// for clients with a certificate.
func TestWhoMayCallNodes(t *testing.T) {
	x := startSecured(t, 1)
	s, err := store.Open(t.Context(), x.store, store.Options{Existing: true})
	if err != nil {
		t.Fatal(err)
	}
	secret := peer.Secret(s.Meta().MACKey)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	look := func(creds credentials.TransportCredentials, secret string) (looked, followed codes.Code) {
		t.Helper()
		conn, err := grpc.NewClient(x.nodes[0].GRPCAddr(), grpc.WithTransportCredentials(creds))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		ctx := metadata.AppendToOutgoingContext(t.Context(), "carillon-peer-secret", secret)
		_, err = peerv1.NewPeerServiceClient(conn).Look(ctx, &peerv1.LookRequest{})
		looked = status.Code(err)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		follow, err := peerv1.NewFollowServiceClient(conn).Follow(ctx)
		if err == nil {
			begin := &peerv1.FollowRequest{Step: &peerv1.FollowRequest_Begin{Begin: &peerv1.FollowBegin{}}}
			if err = follow.Send(begin); err == nil || errors.Is(err, io.EOF) { // Recv has the status
				_, err = follow.Recv()
			}
		}
		return looked, status.Code(err)
	}
	known := x.clients.Issue(nil, "client").TLS(t)
	node := x.peers.Issue(nil, "127.0.0.1").TLS(t)
	strange := testca.New(t).Issue(nil, "127.0.0.1").TLS(t)
	asked := codes.Unavailable // of a request that came too late, which only a node's is
	for what, c := range map[string]struct {
		creds  credentials.TransportCredentials
		secret string
		want   codes.Code
	}{
		"a client that knows the secret":   {credentials.NewTLS(clientTLS(x.peers, known)), secret, codes.Unauthenticated},
		"a node":                           {credentials.NewTLS(clientTLS(x.peers, node)), secret, asked},
		"a node of another store":          {credentials.NewTLS(clientTLS(x.peers, node)), "other", codes.Unauthenticated},
		"nobody, who knows the secret":     {credentials.NewTLS(clientTLS(x.peers)), secret, codes.Unavailable},
		"a stranger, who knows the secret": {credentials.NewTLS(clientTLS(x.peers, strange)), secret, codes.Unavailable},
		"plain text":                       {insecure.NewCredentials(), secret, codes.Unavailable},
	} {
		got, followed := look(c.creds, c.secret)
		if got != c.want {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
		copied := c.want
		if what == "a node" {
			copied = codes.OK
		}
		if followed != copied {
			t.Errorf("%s, who copies: %v, want %v", what, followed, copied)
		}
	}
	if _, err := x.dial(t, 0).ListJobs(t.Context(), carillon.JobQuery{}); err != nil {
		t.Errorf("a client: %v", err)
	}
}

// TestHTTPOverTLS: with a certificate everything is served, without one the codes of probes are, and without
// TLS nothing.
func TestHTTPOverTLS(t *testing.T) {
	clients, nodes := testca.New(t), testca.New(t)
	f := nodetls.Files{ClientCA: clients.File}
	f.Cert, f.Key = nodes.Issue(nil, "127.0.0.1").Files(t)
	log := &syncBuffer{}
	s := serve(t, server.Config{Store: "memory:", Partitions: 2, Credentials: tlsOf(t, f), Extensions: server.Extensions{
		Audit: server.Audit{To: server.AuditLog, Log: slog.New(slog.NewTextHandler(log, nil))}}})
	get := func(scheme, path string, config *tls.Config) (int, string) {
		t.Helper()
		c := http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}}
		defer c.CloseIdleConnections()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, scheme+"://"+s.HTTPAddr()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := c.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	known := clientTLS(nodes, clients.Issue(nil, "client").TLS(t))
	strange := clientTLS(nodes, testca.New(t).Issue(nil, "client").TLS(t))
	strange.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &strange.Certificates[0], nil // although the node does not ask for one of that authority
	}
	for path, unknown := range map[string]int{"/livez": 200, "/readyz": 200, "/metrics": 401,
		"/v1/namespaces/default/jobs": 401, "/": 401, "/livez/../metrics": 401} {
		if got, text := get("https", path, clientTLS(nodes)); got != unknown || got == 200 && text != "" {
			t.Errorf("%s without a certificate: %d, want %d (%s)", path, got, unknown, text)
		}
		if got, text := get("https", path, strange); got != 0 {
			t.Errorf("%s with a certificate of another authority: %d (%s)", path, got, text)
		}
		if got, text := get("https", path, known); got == 401 || got == 0 || unknown == 200 && text == "" {
			t.Errorf("%s with a certificate: %d (%s)", path, got, text)
		}
		if got, text := get("http", path, nil); got != 400 {
			t.Errorf("%s without TLS: %d (%s)", path, got, text)
		}
	}
	eventually(t, "each that was refused is recorded", func() bool {
		return strings.Count(log.String(), "audit.action=HTTP audit.outcome=unauthenticated") == 4
	})
}

// TestWhatTLSAllows: a listener beyond loopback needs certificates of clients, and a node of a store a
// certificate that the others accept.
func TestWhatTLSAllows(t *testing.T) {
	a := testca.New(t)
	f := nodetls.Files{Peers: nodetls.Peers{CA: a.File}}
	f.Cert, f.Key = a.Issue(nil, "127.0.0.1").Files(t)
	c := server.Config{Store: "redis://127.0.0.1:1", GRPC: "0.0.0.0:0", HTTP: "0.0.0.0:0", Advertise: "node.example",
		Credentials: tlsOf(t, f)}
	err := c.Validate()
	for _, want := range []string{"grpc: ", "http: ", "advertise: ", "tls_client_ca"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no certificate of clients is demanded: %v, want %q", err, want)
		}
	}
	f.ClientCA = a.File
	c.Credentials = tlsOf(t, f)
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	c.Monitoring.Debug = "0.0.0.0:0"
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "debug_listen: ") {
		t.Errorf("profiles are not behind TLS: %v", err)
	}
	c.Monitoring.Debug, c.GRPC, c.HTTP = "", "127.0.0.1:0", server.None
	if _, err := server.New(c); err == nil || !strings.Contains(err.Error(), "advertise: ") ||
		!strings.Contains(err.Error(), "node.example") {
		t.Errorf("a certificate that the other nodes would refuse: %v", err)
	}
}

// TestANodeAnswersByTLSWhileItWaits for its store.
func TestANodeAnswersByTLSWhileItWaits(t *testing.T) {
	a := testca.New(t)
	f := nodetls.Files{ClientCA: a.File}
	f.Cert, f.Key = a.Issue(nil, "127.0.0.1").Files(t)
	port := realserver.Port(t)
	at := fmt.Sprint("127.0.0.1:", realserver.Port(t))
	f.Peers.CA = a.File
	c := server.Config{Store: fmt.Sprint("redis://127.0.0.1:", port), GRPC: at, HTTP: server.None, DrainGrace: -1,
		Credentials: tlsOf(t, f)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := server.Await(ctx, c)
		ended <- err
	}()
	config := clientTLS(a, a.Issue(nil, "client").TLS(t))
	conn, err := client.Dial(at, client.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	eventually(t, "it says that its store is away", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := conn.ListJobs(ctx, carillon.JobQuery{})
		return err != nil && strings.Contains(err.Error(), "waiting for")
	})
	cancel()
	if err := await(t, ended); err == nil {
		t.Error("it has started")
	}
}
