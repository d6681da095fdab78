package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/carillonhq/carillon"
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
	return sidecars.Ready, log
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
