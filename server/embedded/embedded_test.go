package embedded_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/embedded"
	_ "github.com/carillonhq/carillon/server/store/memory"
	_ "github.com/carillonhq/carillon/server/store/pebble"
	"github.com/carillonhq/carillon/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ carillon.Scheduler = (*embedded.Scheduler)(nil)

func TestASchedulerGoesOnWhereItStopped(t *testing.T) {
	url := "pebble:" + t.TempDir()
	s, err := embedded.Open(t.Context(), url, embedded.Options{Partitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	job := carillon.Job{Name: "a/b", Schedule: "@daily", Target: carillon.WorkerQueue("q")}
	if _, err := s.PutJob(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	if _, err := embedded.Open(t.Context(), url, embedded.Options{}); err == nil {
		t.Error("a folder was opened twice")
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, err = embedded.Open(t.Context(), url, embedded.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.GetJob(t.Context(), carillon.Key{Namespace: "default", Name: "a/b"}); err != nil {
		t.Error(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := s.PutJob(t.Context(), job); !errors.Is(err, carillon.Unavailable) {
		t.Errorf("after it was closed: %v", err)
	}
}

func TestASchedulerInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := embedded.Open(t.Context(), "memory:", embedded.Options{
			Log: slog.New(slog.DiscardHandler), AllowTargets: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			HTTPHostLimit: 1, SigningSecrets: map[string][]string{"default": {"whsec_" + strings.Repeat("A", 32)}},
			Bounds: carillon.Bounds{Payload: 10}, WindowJobs: 1000, Partitions: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Ready(); err != nil {
			t.Errorf("ready: %v", err)
		}
		got := make(chan time.Time, 1)
		w := worker.New(s, worker.Options{})
		worker.Handle(w, "q", func(_ context.Context, run carillon.Run, in int) error {
			got <- time.Now()
			return nil
		})
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() { left <- w.Run(ctx) }()
		began := time.Now()
		_, err = s.PutJob(t.Context(), carillon.Job{Name: "soon", Due: carillon.In(time.Hour),
			Target: carillon.WorkerQueue("q"), Data: carillon.JSON(7)})
		if err != nil {
			t.Fatal(err)
		}
		if d := (<-got).Sub(began); d != time.Hour {
			t.Errorf("it fired after %v", d)
		}
		leave()
		if err := <-left; err != nil {
			t.Errorf("worker: %v", err)
		}
		_, err = s.PutJob(t.Context(), carillon.Job{Name: "large", Target: carillon.WorkerQueue("q"),
			Data: carillon.JSON("more than ten bytes")})
		if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Field != "data" {
			t.Errorf("large: %v", err)
		}
		rec := httptest.NewRecorder()
		s.Metrics().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/", nil))
		if !strings.Contains(rec.Body.String(), "carillon_runs_succeeded_total 1") {
			t.Errorf("metrics: %s", rec.Body)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := s.Ready(); err == nil {
			t.Error("it is ready after it was closed")
		}
	})
}

func TestWhatCannotBeOpened(t *testing.T) {
	secret := embedded.Options{SigningSecrets: map[string][]string{"default": {"secret"}}}
	for _, c := range []struct {
		url  string
		o    embedded.Options
		want string
	}{
		{"", embedded.Options{}, "none is given"},
		{"pebble:", embedded.Options{}, "names no folder"},
		{"./data", embedded.Options{}, "has no scheme"},
		{"mongodb://db", embedded.Options{},
			`"mongodb" is not supported; there are "cassandra://`},
		{"memory:", secret, "signing_secrets"},
	} {
		if _, err := embedded.Open(t.Context(), c.url, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.url, err, c.want)
		}
	}
}

// TestPayloadsOfAnEmbeddedScheduler: large data is kept apart, and its worker gets it all the same.
func TestPayloadsOfAnEmbeddedScheduler(t *testing.T) {
	s, err := embedded.Open(t.Context(), "memory:", embedded.Options{
		Payloads: &embedded.Payloads{Store: "file:" + t.TempDir(), Above: 10}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	large := bytes.Repeat([]byte("x"), 1<<20)
	put, err := s.PutJob(t.Context(), carillon.Job{Name: "x", Target: carillon.WorkerQueue("q"),
		Data: carillon.Bytes(large, "text/plain")})
	if err != nil || put.Job.Data.Ref == nil {
		t.Fatalf("%+v, %v", put.Job.Data, err)
	}
	ctx, leave := context.WithCancel(t.Context())
	var came []byte
	w := worker.New(s, worker.Options{})
	worker.Handle(w, "q", func(_ context.Context, _ carillon.Run, in []byte) error {
		came = in
		leave()
		return nil
	})
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(came, large) {
		t.Errorf("%d bytes came", len(came))
	}
}

func TestProgressAndReschedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := embedded.Open(t.Context(), "memory:", embedded.Options{Partitions: 1})
		if err != nil {
			t.Fatal(err)
		}
		began, later := time.Now(), time.Now().Add(time.Hour)
		shown, done := make(chan carillon.Run, 1), make(chan carillon.Run, 1)
		w := worker.New(s, worker.Options{})
		worker.Handle(w, "q", func(ctx context.Context, run carillon.Run, _ carillon.Data) error {
			if time.Since(began) >= time.Hour {
				done <- run
				return nil
			}
			if err := worker.Progress(ctx, 12.5, "rows"); err != nil {
				return err
			}
			<-time.After(time.Second)
			now, err := s.GetRun(ctx, run.Namespace, run.ID)
			if err != nil {
				return err
			}
			shown <- now
			return worker.Reschedule(later)
		})
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() { left <- w.Run(ctx) }()
		if _, err := s.PutJob(t.Context(), carillon.Job{Name: "a", Target: carillon.WorkerQueue("q")}); err != nil {
			t.Fatal(err)
		}
		first := <-shown
		if p := first.Progress; p == nil || p.Percent != 12.5 || p.Message != "rows" || p.At.Before(began) {
			t.Errorf("progress: %+v", p)
		}
		if again := <-done; again.ID != first.ID || !time.Now().Equal(later) || len(again.Errors) != 0 {
			t.Errorf("attempted again at %v as %+v", time.Now(), again)
		}
		leave()
		if err := errors.Join(<-left, s.Close(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

// TestProgressIsNotAcknowledged: a worker forgets a result once its token is acknowledged, so progress must
// not be.
func TestProgressIsNotAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := embedded.Open(t.Context(), "memory:", embedded.Options{Partitions: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.PutJob(t.Context(), carillon.Job{Name: "a", Target: carillon.WorkerQueue("q")}); err != nil {
			t.Fatal(err)
		}
		session, err := s.Connect(t.Context(), carillon.Hello{Namespace: "default", Queues: []string{"q"}})
		if err != nil {
			t.Fatal(err)
		}
		send := func(r carillon.WorkRequest) {
			if err := session.Send(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		send(carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: 1}}})
		got, err := session.Receive(t.Context())
		if err != nil || len(got.Runs) != 1 {
			t.Fatalf("received %+v, %v", got, err)
		}
		r := carillon.Result{Token: got.Runs[0].Token, RunID: got.Runs[0].ID, Outcome: carillon.OutcomeProgress}
		for percent := range 3 {
			r.Progress.Percent = float64(percent)
			send(carillon.WorkRequest{Results: []carillon.Result{r}})
		}
		r.Outcome = carillon.OutcomeSuccess
		send(carillon.WorkRequest{Results: []carillon.Result{r}})
		if got, err = session.Receive(t.Context()); err != nil || len(got.Acks) != 1 || len(got.Stale) != 0 {
			t.Errorf("received %+v, %v; want one acknowledgement", got, err)
		}
		if err := errors.Join(session.Close(), s.Close(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

// TestQueuesOfAnEmbeddedScheduler are paused and purged as those of a node.
func TestQueuesOfAnEmbeddedScheduler(t *testing.T) {
	s, err := embedded.Open(t.Context(), "memory:", embedded.Options{Partitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	key := carillon.QueueKey{Name: "q"}
	change, err := s.Queues().PauseQueue(t.Context(), key, "why")
	if err != nil || change.Pause.Note != "why" || change.Unheard != nil {
		t.Errorf("paused: %+v, %v", change, err)
	}
	if _, err := s.PutJob(t.Context(), carillon.Job{Name: "a", Target: carillon.WorkerQueue("q")}); err != nil {
		t.Fatal(err)
	}
	purged, err := s.Queues().PurgeQueue(t.Context(), key, carillon.PurgeOptions{})
	if err != nil || purged != (carillon.PurgeResult{Runs: 1}) {
		t.Errorf("purged: %+v, %v", purged, err)
	}
	if change, err := s.Queues().ResumeQueue(t.Context(), key); err != nil || change.Pause != (carillon.QueuePause{}) {
		t.Errorf("resumed: %+v, %v", change, err)
	}
}
