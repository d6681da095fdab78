package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
	"github.com/carillonhq/carillon/server/internal/daprapi"
	"github.com/carillonhq/carillon/server/internal/daprmove"
	"github.com/carillonhq/carillon/server/internal/server"
)

// statesOf are several states of one scheduler, with the same jobs.
func statesOf(t *testing.T, names ...string) (states []*daprmove.State) {
	t.Helper()
	one, err := daprmove.Read(t.Context(), []string{"../../internal/daprmove/testdata/dapr-1.18.3.export"}, daprmove.Access{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		state := *one
		state.ID, state.Origin, state.Cluster = name, "folder "+name, "1"
		states = append(states, &state)
	}
	return states
}

// arrivingNode is a node that is to bring in a state, and whether it is ready.
func arrivingNode(t *testing.T, n *server.Node, jobs carillon.Jobs, state *daprmove.State) (ready func() error, log *journal) {
	t.Helper()
	log = &journal{}
	r := &arrival{state: state, log: slog.New(slog.NewTextHandler(log, nil))}
	sidecars := &server.Sidecars{API: func(*server.Node, grpc.ServiceRegistrar) func() { return func() {} }}
	r.guard(sidecars, func(err error) { t.Errorf("the node ends: %v", err) })
	if jobs == nil {
		t.Cleanup(sidecars.API(n, grpc.NewServer()))
	} else {
		go func() {
			if err := r.bring(t.Context(), jobs); err != nil {
				t.Errorf("the node ends: %v", err)
			}
		}()
	}
	return sidecars.Busy, log
}

// journal is a log that may be read while it is written.
type journal struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(p)
}

func (j *journal) has(text string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Contains(j.b.String(), text)
}

// startedNode is a node in the bubble.
func startedNode(t *testing.T) *server.Node {
	t.Helper()
	n, err := server.Start(t.Context(), server.Config{Store: "memory:", Partitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return n
}

// TestNodesWaitForTheImport: a node is not ready while another one imports its own folder, however long that takes, and says
// for whom it waits; then it is ready, and its own folder does not come in.
func TestNodesWaitForTheImport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := startedNode(t)
		states := statesOf(t, "a", "b")
		var all sync.WaitGroup
		held := make(chan struct{})
		all.Go(func() {
			report, err := daprmove.Import(t.Context(), n.Scheduler(), states[0], func(what string, _, _ int) {
				if strings.Contains(what, "putting") {
					<-held
				}
			})
			if err != nil || !report.Whole() {
				t.Errorf("%+v, %v", report, err)
			}
		})
		time.Sleep(time.Second)
		ready, log := arrivingNode(t, n, nil, states[1])
		time.Sleep(2 * time.Minute)
		if err := ready(); err == nil || !strings.Contains(err.Error(), "coming in: waiting for another import, from folder a") {
			t.Errorf("the node is ready, or says %v", err)
		}
		close(held)
		all.Wait()
		time.Sleep(5 * time.Second)
		if err := ready(); err != nil || !log.has("another state of the same scheduler was imported, from folder a") {
			t.Errorf("the node is not ready: %v", err)
		}
	})
}

// TestANodeTakesOver from one that was ended while it put.
func TestANodeTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := startedNode(t)
		states := statesOf(t, "a", "b")
		ctx, cancel := context.WithCancel(t.Context())
		_, err := daprmove.Import(ctx, n.Scheduler(), states[0], func(what string, done, _ int) {
			if strings.Contains(what, "putting") && done == 20 {
				synctest.Wait() // the first ones are there
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("it was not cut off: %v", err)
		}
		ready, log := arrivingNode(t, n, nil, states[1])
		time.Sleep(10 * time.Second)
		if ready() == nil {
			t.Error("the node is ready before the import")
		}
		time.Sleep(10 * time.Second)
		if err := ready(); err != nil || !log.has(`"taken back"=20`) || !log.has(`here="49 jobs`) {
			t.Errorf("the node is not ready: %v, %s", err, log.b.String())
		}
	})
}

// unreached is a node that is out of reach after some puts.
type unreached struct {
	carillon.Scheduler
	left atomic.Int64
}

func (u *unreached) PutJob(ctx context.Context, j carillon.Job, o ...carillon.PutOption) (carillon.PutResult, error) {
	if u.left.Add(-1) < 0 {
		return carillon.PutResult{}, carillon.Errorf(carillon.Unavailable, "", "out of reach")
	}
	return u.Scheduler.PutJob(ctx, j, o...)
}

// TestANodeThatWasOvertakenGoesOn: the node was out of reach for too long, and another one has imported its own folder.
func TestANodeThatWasOvertakenGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := startedNode(t)
		states := statesOf(t, "a", "b")
		u := &unreached{Scheduler: n.Scheduler()}
		u.left.Store(10)
		ready, log := arrivingNode(t, n, u, states[0])
		time.Sleep(time.Second)
		report, err := daprmove.Import(t.Context(), n.Scheduler(), states[1], func(string, int, int) {})
		if err != nil || !report.Whole() {
			t.Fatalf("%+v, %v", report, err)
		}
		if ready() == nil {
			t.Error("it is ready")
		}
		u.left.Store(1000)
		time.Sleep(30 * time.Second)
		if err := ready(); err != nil || !log.has("goes on elsewhere") || !log.has("was imported, from folder b") {
			t.Errorf("the node is not ready: %v, %s", err, log.b.String())
		}
	})
}

// TestANodeThatImportsLives: while jobs come in, a probe of liveness lets the node work, it is not ready, and each call and
// stream of sidecars is refused. Trouble shows all the same.
func TestANodeThatImportsLives(t *testing.T) {
	var trouble atomic.Bool
	sidecars := &server.Sidecars{Address: "127.0.0.1:0", Ready: func() error {
		if trouble.Load() {
			return errors.New("no identity yet")
		}
		return nil
	}}
	r := &arrival{}
	r.guard(sidecars, func(err error) { t.Errorf("the node ends: %v", err) })
	sidecars.API = daprAPI(daprapi.Options{}) // without the import itself, which lasts as long as the test wants
	node, stop, err := startNode(t.Context(), server.Config{Store: "memory:", Partitions: 2, GRPC: server.None,
		HTTP: "127.0.0.1:0", DrainGrace: -1, Sidecars: sidecars, Monitoring: server.Monitoring{Healthz: "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}()
	conn, err := grpc.NewClient(node.SidecarsAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	probes := func(healthz, readyz int, reason string) {
		t.Helper()
		if code, text := pageAt(t, "http://"+node.HealthzAddr()+"/healthz"); code != healthz || text != "" {
			t.Errorf("/healthz: %d %q, want %d", code, text, healthz)
		}
		code, text := pageAt(t, "http://"+node.HTTPAddr()+"/readyz")
		if code != readyz || !strings.Contains(text, reason) {
			t.Errorf("/readyz: %d %q, want %d %q", code, text, readyz, reason)
		}
	}
	refused := func(want bool) {
		t.Helper()
		for method, err := range endsOf(t, conn) {
			if (status.Code(err) == codes.Unavailable) != want ||
				want && !strings.Contains(err.Error(), "jobs of Dapr's scheduler are coming in") {
				t.Errorf("%s: %v; is to be refused: %v", method, err, want)
			}
		}
	}
	probes(http.StatusOK, http.StatusServiceUnavailable, "jobs of Dapr's scheduler are coming in")
	refused(true)
	trouble.Store(true)
	probes(http.StatusServiceUnavailable, http.StatusServiceUnavailable, "")
	refused(true)
	r.in.Store(true)
	probes(http.StatusServiceUnavailable, http.StatusServiceUnavailable, "no identity yet")
	trouble.Store(false)
	probes(http.StatusOK, http.StatusOK, "")
	refused(false)
}

// pageAt is what a path answers.
func pageAt(t *testing.T, url string) (code int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	caller := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := caller.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// endsOf calls each method and stream of sidecars with an empty message, and returns how they end; nil: with an answer.
func endsOf(t *testing.T, conn *grpc.ClientConn) map[string]error {
	t.Helper()
	var methods []string
	for _, m := range pb.Scheduler_ServiceDesc.Methods {
		methods = append(methods, m.MethodName)
	}
	for _, s := range pb.Scheduler_ServiceDesc.Streams {
		methods = append(methods, s.StreamName)
	}
	ends := map[string]error{}
	for _, method := range methods {
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
			"/"+pb.Scheduler_ServiceDesc.ServiceName+"/"+method)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(stream.SendMsg(&pb.WatchHostsRequest{}), stream.CloseSend()); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		ends[method] = stream.RecvMsg(&pb.WatchHostsResponse{})
		cancel()
	}
	if len(ends) != 8 {
		t.Errorf("%d calls, want the 8 of Dapr 1.18", len(ends))
	}
	return ends
}

// TestWhatAnImportSays: jobs that are left out are named and counted, and the command fails.
func TestWhatAnImportSays(t *testing.T) {
	fault := daprFault{"dapr/jobs/x", "it is too large"}
	for _, c := range []struct {
		report     daprReport
		says, fail string
	}{
		{daprReport{Before: true}, "nothing was done", ""},
		{daprReport{Before: true, Retried: 5, Left: 1, Faults: []daprFault{fault}},
			"left out: dapr/jobs/x: it is too large\nit was imported before; 5 jobs that were refused then were tried again, " +
				"1 are left out\n", "1 jobs were left out"},
		{daprReport{Before: true, Left: 100, Unkept: 100}, "100 of the jobs that were left out are never tried again",
			"100 jobs were left out"},
		{daprReport{TakenBack: 3}, "3 jobs of another state were taken back", ""},
	} {
		var out bytes.Buffer
		a := app{out: &out, errs: &out}
		err := c.report.show(newDaprImport(a), a)
		if !strings.Contains(out.String(), c.says) || (err == nil) != (c.fail == "") ||
			err != nil && (err.Error() != c.fail || exitCode(err) != exitFailed) {
			t.Errorf("it says %q and fails with %v", out.String(), err)
		}
	}
}
