package main

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/grpcapi"
)

// TestStubScripts runs testdata/stub: each script has a stub of its own, in this process, at
// $CARILLON_SERVER.
func TestStubScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("as TestScripts")
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/stub",
		RequireExplicitExec: true,
		Setup:               setupStub,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// setupStub starts the script's stub, and at $OLD one that has no cluster.
func setupStub(env *testscript.Env) error {
	env.Setenv("TZ", "UTC")
	now := func() time.Time { return stubNow }
	for name, o := range map[string]grpcapi.Options{
		"CARILLON_SERVER": {Now: now, Cluster: grpcapi.NewClusterService(newStubCluster())},
		"OLD":             {Now: now},
	} {
		if err := serveStub(env, name, o); err != nil {
			return err
		}
	}
	return nil
}

// serveStub serves a stub at an address that the variable holds.
func serveStub(env *testscript.Env, name string, o grpcapi.Options) error {
	addr, err := listen(env.Defer, &stub{}, o)
	env.Setenv(name, addr)
	return err
}

// listen serves a scheduler until the test ends, and returns its address.
func listen(atEnd func(func()), s carillon.Scheduler, o grpcapi.Options) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := grpcapi.NewServer(grpcapi.NewService(s, o))
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	atEnd(func() {
		server.Stop()
		if err := <-ended; err != nil {
			panic(err)
		}
	})
	return listener.Addr().String(), nil
}

// stubNow is the stub's clock.
var stubNow = time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)

// stub is a Scheduler of one job, "nightly", with the calls that the scripts make; the others panic. A
// backfill of it ends one more of its three runs each time that somebody looks; with an overlap of allow, one
// fails.
type stub struct {
	carillon.Scheduler
	mu        sync.Mutex
	backfills []carillon.Backfill
}

func (s *stub) find(key carillon.Key) (carillon.Job, error) {
	if key.Name != "nightly" {
		return carillon.Job{}, carillon.Errorf(carillon.NotFound, "name", "there is no job %q", key.Name)
	}
	return carillon.Job{Namespace: key.Namespace, Name: key.Name, ConcurrencyKey: "licence",
		DependsOn: []string{"load", "clean"},
		Status: &carillon.JobStatus{Phase: carillon.PhaseWaiting, Waiting: []string{"load"},
			NextRun: stubNow.Add(time.Hour),
			Current: &carillon.Run{Status: carillon.RunRetrying, Due: stubNow,
				Progress: &carillon.Progress{Percent: 40, Message: "half", At: stubNow}}}}, nil
}

// Watch tells of a run that is dead and of times that were skipped, each time that it is called.
func (s *stub) Watch(ctx context.Context, q carillon.WatchQuery, f func(carillon.EventBatch) error) error {
	if err := q.Validate(); err != nil {
		return err
	}
	all := []carillon.Event{
		{ID: "1", Type: carillon.EventRunDead, Time: stubNow, Namespace: "shop", Job: "nightly", Run: "r1", Attempt: 3,
			Error: "no\nway"},
		{ID: "2", Type: carillon.EventRunSkipped, Time: stubNow, Namespace: "default", Job: "cron", Skipped: 4,
			Reason: "paused"},
	}
	b := carillon.EventBatch{Position: q.Position + "p"}
	for i := range all {
		if q.Selects(&all[i]) {
			b.Events = append(b.Events, all[i])
		}
	}
	if err := f(b); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s *stub) GetJob(_ context.Context, key carillon.Key) (carillon.Job, error) { return s.find(key) }

func (s *stub) SetPaused(_ context.Context, key carillon.Key, p carillon.PauseOptions) (carillon.Job, error) {
	job, err := s.find(key)
	job.Note = fmt.Sprintf("paused %v, catch up %v: %s", p.Paused, p.CatchUp, p.Note)
	return job, err
}

func (s *stub) SkipRun(_ context.Context, key carillon.Key) (carillon.SkipResult, error) {
	job, err := s.find(key)
	return carillon.SkipResult{Time: stubNow, Job: job}, err
}

func (s *stub) GetRun(_ context.Context, ns, id string) (carillon.Run, error) {
	return carillon.Run{ID: id, Namespace: ns, Cause: carillon.CauseBackfill,
		Status: carillon.RunRunning, Backfill: "b1",
		Progress: &carillon.Progress{Percent: 12.5, Message: "rows", At: stubNow}}, nil
}

func (s *stub) StartBackfill(_ context.Context, key carillon.Key,
	spec carillon.BackfillSpec) (carillon.Backfill, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.find(key); err != nil {
		return carillon.Backfill{}, err
	}
	if err := spec.Validate(stubNow); err != nil {
		return carillon.Backfill{}, err
	}
	b := carillon.Backfill{ID: fmt.Sprint("b", len(s.backfills)+1), Namespace: key.Namespace, Job: key.Name,
		Spec: spec, Total: 3, Next: spec.From, Created: stubNow}
	s.backfills = append(s.backfills, b)
	return b, nil
}

func (s *stub) ListBackfills(_ context.Context, key carillon.Key) ([]carillon.Backfill, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.find(key)
	return s.backfills, err
}

func (s *stub) look(id string, change func(*carillon.Backfill)) (carillon.Backfill, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.backfills {
		if b := &s.backfills[i]; b.ID == id {
			if b.Status == carillon.BackfillRunning {
				change(b)
			}
			return *b, nil
		}
	}
	return carillon.Backfill{}, carillon.Errorf(carillon.NotFound, "id", "there is no backfill %q", id)
}

func (s *stub) GetBackfill(_ context.Context, _, id string) (carillon.Backfill, error) {
	return s.look(id, func(b *carillon.Backfill) {
		b.Begun++
		if b.Spec.Overlap == carillon.OverlapAllow && b.Failed == 0 {
			b.Failed++
		} else {
			b.Succeeded++
		}
		if b.Begun == b.Total {
			b.Status, b.Next, b.Finished = carillon.BackfillDone, time.Time{}, stubNow
		}
	})
}

func (s *stub) CancelBackfill(_ context.Context, _, id string) (carillon.Backfill, error) {
	return s.look(id, func(b *carillon.Backfill) { b.Status, b.Finished = carillon.BackfillCancelled, stubNow })
}
