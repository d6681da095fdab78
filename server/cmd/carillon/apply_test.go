package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/grpcapi"
	"github.com/carillonhq/carillon/server/internal/manifest"
	"github.com/carillonhq/carillon/server/internal/server"
)

// testNode starts a node, and returns its address and a client of it.
func testNode(t *testing.T) (addr string, node *client.Client) {
	t.Helper()
	running, stop, err := startNode(t.Context(), server.Config{Store: "memory:", Partitions: 1, GRPC: "127.0.0.1:0",
		HTTP: server.None, DrainGrace: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return running.GRPCAddr(), testClient(t, running.GRPCAddr(), func(string) {})
}

// testClient returns a client before whose calls somebody else is at work.
func testClient(t *testing.T, addr string, meddle func(call string)) *client.Client {
	t.Helper()
	node, err := client.Dial(addr, client.WithDialOptions(grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
			opts ...grpc.CallOption) error {
			meddle(path.Base(method))
			return invoke(ctx, method, req, reply, conn, opts...)
		})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.Close(); err != nil {
			t.Error(err)
		}
	})
	return node
}

const appliedText = `{"name": "a", "namespace": "default", "schedule": "@daily", "labels": {"is": "new"},
	"target": {"worker": {"queue": "q"}}}`

// TestApplyMindsOthers: somebody else is faster than an apply that has compared a job already.
func TestApplyMindsOthers(t *testing.T) {
	addr, others := testNode(t)
	key := carillon.Key{Namespace: "default", Name: "a"}
	items, err := manifest.Read("f", []byte(appliedText))
	if err != nil {
		t.Fatal(err)
	}
	old := items[0].Job
	old.Labels = map[string]string{"is": "old"}
	n := 0
	for name, is := range map[string]struct {
		absent bool // there is no job at first
		always bool // it happens before each call, not only before the first
		meddle func(ctx context.Context) error
		action string
		paused bool
		fault  string
	}{
		"nobody": {meddle: func(context.Context) error { return nil }, action: "changed"},
		"paused": {meddle: func(ctx context.Context) error {
			_, err := others.SetPaused(ctx, key, carillon.PauseOptions{Paused: true, Note: "incident"})
			return err
		}, action: "changed", paused: true},
		"changed": {meddle: func(ctx context.Context) error {
			other := old
			other.Priority, other.Paused, other.Note = carillon.PriorityHigh, true, "incident"
			_, err := others.PutJob(ctx, other)
			return err
		}, action: "changed", paused: true},
		"deleted": {meddle: func(ctx context.Context) error {
			_, err := others.DeleteJob(ctx, key)
			return err
		}, action: "created"},
		"made, and paused": {absent: true, meddle: func(ctx context.Context) error {
			other := old
			other.Paused, other.Note = true, "incident"
			_, err := others.PutJob(ctx, other)
			return err
		}, action: "changed", paused: true},
		"made as the file says": {absent: true, meddle: func(ctx context.Context) error {
			_, err := others.PutJob(ctx, items[0].Job)
			return err
		}, action: "unchanged"},
		"changed each time": {always: true, meddle: func(ctx context.Context) error {
			other := old
			n++
			other.Metadata = map[string]string{"n": strings.Repeat("x", n)}
			_, err := others.PutJob(ctx, other)
			return err
		}, action: "changed", fault: "others changed it 5 times meanwhile"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			if _, err := others.DeleteJob(ctx, key); err != nil && carillon.KindOf(err) != carillon.NotFound {
				t.Fatal(err)
			}
			if !is.absent {
				if _, err := others.PutJob(ctx, old); err != nil {
					t.Fatal(err)
				}
			}
			c := change{item: &items[0]}
			if err := c.compare(ctx, others); err != nil {
				t.Fatal(err)
			}
			done := false
			node := testClient(t, addr, func(call string) {
				if (!done || is.always) && call != "GetJob" {
					done = true
					if err := is.meddle(ctx); err != nil {
						t.Error(err)
					}
				}
			})
			_, err := c.apply(ctx, node)
			if is.fault != "" {
				if err == nil || !strings.Contains(err.Error(), is.fault) {
					t.Errorf("%v, want %s", err, is.fault)
				}
				return
			}
			got, readErr := others.GetJob(ctx, key)
			if err != nil || readErr != nil {
				t.Fatal(err, readErr)
			}
			note := ""
			if is.paused {
				note = "incident"
			}
			if c.action() != is.action || got.Paused != is.paused || got.Note != note || got.Labels["is"] != "new" ||
				got.Priority != old.Priority {
				t.Errorf("it was %s: %+v", c.action(), got)
			}
		})
	}
}

// TestApplyOfARunAtOnceResumesNothing: a job with a schedule that is paused while it is made a one-shot stays
// paused. What the file leaves out is no difference afterwards.
func TestApplyOfARunAtOnceResumesNothing(t *testing.T) {
	addr, others := testNode(t)
	items, err := manifest.Read("f", []byte(`{"name": "a", "namespace": "default", "target": {"worker": {"queue": "q"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	old := items[0].Job
	old.Schedule = "@daily"
	if _, err := others.PutJob(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	node := testClient(t, addr, func(call string) {
		if call == "GetJob" {
			return
		}
		if _, err := others.SetPaused(t.Context(), old.Key(), carillon.PauseOptions{Paused: true, Note: "incident"}); err != nil {
			t.Error(err)
		}
	})
	c := change{item: &items[0]}
	if err := c.compare(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	if _, err := c.apply(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	if err := c.compare(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	if c.action() != "unchanged" || c.live.Recurring() || !c.live.Paused || c.live.Note != "incident" {
		t.Errorf("%s: %+v", c.action(), c.live)
	}
	put := old
	put.Schedule, put.Due = "", carillon.In(time.Hour)
	if _, err := others.PutJob(t.Context(), put); err != nil {
		t.Fatal(err)
	}
	if err := c.compare(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	if c.action() != "changed" || !c.job.Due.IsZero() {
		t.Errorf("one that is due in an hour: %s, %+v", c.action(), c.job)
	}
}

// TestApplySaysThatOthersWereFaster: what it says of the job is that, and not what the last refusal was.
func TestApplySaysThatOthersWereFaster(t *testing.T) {
	others := &changedEachTime{}
	addr, err := listen(t.Cleanup, others, grpcapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "a.json")
	if err := os.WriteFile(file, []byte(appliedText), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if code := execute([]string{"apply", "-f", file, "--server", addr}, app{out: &out, errs: io.Discard}); code != exitFailed {
		t.Errorf("it exits with %d", code)
	}
	want := "a failed: " + file + ":1:1: others changed it 5 times meanwhile; apply again\n"
	if got := out.String(); got != want || others.patches != 5 {
		t.Errorf("after %d patches %q, want %q", others.patches, got, want)
	}
}

// changedEachTime is a Scheduler whose job has another generation at each look.
type changedEachTime struct {
	carillon.Scheduler
	mu         sync.Mutex
	generation uint64
	patches    int
}

func (s *changedEachTime) GetJob(_ context.Context, key carillon.Key) (carillon.Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation++
	return carillon.Job{Namespace: key.Namespace, Name: key.Name, Schedule: "@hourly",
		Target: carillon.Target{Worker: &carillon.WorkerTarget{Queue: "q"}},
		Status: &carillon.JobStatus{Generation: s.generation}}, nil
}

func (s *changedEachTime) PatchJob(context.Context, carillon.Key, carillon.Patch) (carillon.PutResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.patches++
	return carillon.PutResult{}, carillon.Errorf(carillon.FailedPrecondition, "if_generation", "it is %d", s.generation)
}

// TestApplyChangesEachField: what is patched is all that a file may say.
func TestApplyChangesEachField(t *testing.T) {
	_, node := testNode(t)
	for _, text := range []string{
		appliedText,
		`{"name": "a", "namespace": "default", "schedule": "0 2 * * *", "time_zone": "Asia/Tokyo", "dst": "literal",
		"due_time": "2090-01-01T00:00:00Z", "repeats": 3, "ttl": "2091-01-01T00:00:00Z", "jitter": "1s", "data": {"a": 1},
		"metadata": {"a": "b"}, "labels": {"c": "d"}, "target": {"http": {"url": "http://127.0.0.1:1/", "method": "PUT"}},
		"failure_policy": {"constant": {"interval": "3s", "max_retries": 2}}, "timeout": "5s", "overlap": "skip",
		"misfire": "all", "catch_up_limit": 7, "priority": "high", "concurrency_key": "k", "depends_on": ["b"],
		"paused": true, "note": "n", "history": {"runs": 3}}`,
		`{"name": "a", "namespace": "default", "due_time": "2090-01-01T00:00:00Z", "data_base64": "AAE=",
		"content_type": "text/plain", "target": {"worker": {"queue": "q"}}, "lease": "20s", "paused": false}`,
		`{"name": "a", "namespace": "default", "schedule": "@hourly", "data": "x", "target": {"worker": {"queue": "q"}}}`,
		`{"name": "a", "namespace": "default", "target": {"worker": {"queue": "q"}}}`,
	} {
		items, err := manifest.Read("f", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		c := change{item: &items[0]}
		if err := c.compare(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		if _, err := c.apply(t.Context(), node); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if err := c.compare(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		if c.action() != "unchanged" {
			d, _ := jobDiff(c.live, &c.job)
			t.Errorf("%s\nit is %s:\n%s", text, c.action(), d)
		}
	}
}
