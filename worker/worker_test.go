package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/worker"
)

// bubble runs a test in which time costs nothing.
func bubble(t *testing.T, test func(t *testing.T, s *server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newServer()) })
}

// quit lets an idle worker leave.
func quit(t *testing.T, s *server, leave func(), left chan error) {
	t.Helper()
	leave()
	s.next()
	if err := <-left; err != nil {
		t.Errorf("run: %v", err)
	}
}

func TestRoomIsGrantedAndGrantedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		w := worker.New(s, worker.Options{Concurrency: 3, ID: "me", Labels: map[string]string{"a": "b"}})
		goOn := make(chan struct{})
		worker.Handle(w, "q", func(context.Context, carillon.Run, carillon.Data) error { <-goOn; return nil })
		worker.Handle(w, "other", func(context.Context, carillon.Run, carillon.Data) error { return nil }, worker.Limit(5))
		leave, left := start(t, w)
		c := s.next()
		if h := s.hellos()[0]; h.WorkerID != "me" || h.Namespace != "default" || !slices.Equal(h.Queues, []string{"q", "other"}) || h.Labels["a"] != "b" {
			t.Errorf("hello: %+v", h)
		}
		if r := c.said(); grants(r, "q") != 3 || grants(r, "other") != 5 {
			t.Errorf("first credits: %+v", r)
		}
		c.deliver(run("1"), run("2"))
		if r := c.said(); grants(r, "q") != 0 {
			t.Errorf("credits while they are in use: %+v", r)
		}
		close(goOn)
		r := c.said()
		if grants(r, "q") != 2 || len(r.Results) != 2 || r.Results[0].Outcome != carillon.OutcomeSuccess {
			t.Errorf("afterwards: %+v", r)
		}
		c.ack(r.Results)
		quit(t, s, leave, left)
	})
}

func TestWhatAHandlerReturns(t *testing.T) {
	boom := errors.New("boom")
	tomorrow := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		handle func() error
		want   carillon.Result
	}{
		"nil":                {func() error { return nil }, carillon.Result{Outcome: carillon.OutcomeSuccess}},
		"an error":           {func() error { return boom }, carillon.Result{Message: "boom"}},
		"discard":            {func() error { return fmt.Errorf("why: %w", worker.Discard(boom)) }, carillon.Result{Message: "why: boom", Permanent: true}},
		"discard of nothing": {func() error { return worker.Discard(nil) }, carillon.Result{Outcome: carillon.OutcomeSuccess}},
		"retry after":        {func() error { return worker.RetryAfter(time.Minute, boom) }, carillon.Result{Message: "boom", RetryAfter: time.Minute}},
		"retry after nothing": {func() error { return worker.RetryAfter(time.Minute, nil) },
			carillon.Result{Message: "to be tried again after 1m0s", RetryAfter: time.Minute}},
		"reschedule":            {func() error { return fmt.Errorf("not yet: %w", worker.Reschedule(tomorrow)) }, carillon.Result{Outcome: carillon.OutcomeReschedule, At: tomorrow}},
		"reschedule, discarded": {func() error { return worker.Discard(worker.Reschedule(tomorrow)) }, carillon.Result{Message: "to be attempted again at 2026-11-22T00:00:00Z", Permanent: true}},
		"reschedule at no time": {func() error { return worker.Reschedule(time.Time{}) },
			carillon.Result{Message: "worker.Reschedule: 0001-01-01 00:00:00 +0000 UTC is no time that a run can have"}},
		"much":    {func() error { return errors.New(strings.Repeat("ä", 4096)) }, carillon.Result{Message: strings.Repeat("ä", 2048)}},
		"a panic": {func() error { panic("oh") }, carillon.Result{Message: "panic: oh"}},
		"no end":  {func() error { runtime.Goexit(); return nil }, carillon.Result{Message: "the handler ended its goroutine"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				w := worker.New(s, worker.Options{})
				worker.Handle(w, "q", func(context.Context, carillon.Run, carillon.Data) error { return c.handle() })
				leave, left := start(t, w)
				n := s.next()
				n.deliver(run("1"))
				results := n.said().Results
				if len(results) != 1 {
					t.Fatalf("results: %+v", results)
				}
				got := results[0]
				if name == "a panic" {
					if !strings.Contains(got.Message, "worker_test.go") || len(got.Message) > carillon.MaxErrorBytes {
						t.Errorf("stack: %s", got.Message)
					}
					got.Message = got.Message[:len(c.want.Message)]
				}
				c.want.Token, c.want.RunID = "1", "run of 1"
				if fmt.Sprint(got) != fmt.Sprint(c.want) {
					t.Errorf("got %+v, want %+v", got, c.want)
				}
				n.ack(results)
				quit(t, s, leave, left)
			})
		})
	}
}

func TestPayloads(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		w := worker.New(s, worker.Options{})
		got := make(chan any, 16)
		worker.Handle(w, "struct", func(_ context.Context, _ carillon.Run, in struct{ N int }) error { got <- in.N; return nil })
		worker.Handle(w, "pointer", func(_ context.Context, _ carillon.Run, in *struct{ N int }) error { got <- in == nil; return nil })
		worker.Handle(w, "bytes", func(_ context.Context, _ carillon.Run, in []byte) error { got <- string(in); return nil })
		worker.Handle(w, "data", func(_ context.Context, _ carillon.Run, in carillon.Data) error { got <- in.ContentType; return nil })
		worker.Handle(w, "raw", func(_ context.Context, _ carillon.Run, in json.RawMessage) error { got <- string(in); return nil })
		leave, left := start(t, w)
		c := s.next()
		for i, p := range []struct {
			queue string
			data  carillon.Data
			want  any
		}{
			{"struct", carillon.JSON(map[string]int{"n": 7}), 7}, {"struct", carillon.Data{}, 0},
			{"pointer", carillon.JSON(map[string]int{"n": 7}), false}, {"pointer", carillon.Data{}, true},
			{"bytes", carillon.Bytes([]byte("\x00x"), "application/x"), "\x00x"},
			{"data", carillon.Bytes([]byte("\x00x"), "application/x"), "application/x"},
			{"raw", carillon.JSON(1), "1"},
		} {
			r := run(fmt.Sprint(i))
			r.Queue, r.Data = p.queue, p.data
			c.deliver(r)
			if g := <-got; g != p.want {
				t.Errorf("%s of %q: %v", p.queue, p.data.Bytes, g)
			}
		}
		c.ack(c.said().Results)
		bad := run("bad")
		bad.Queue, bad.Data = "struct", carillon.Bytes([]byte("{"), "")
		c.deliver(bad)
		results := c.said().Results
		if len(results) != 1 || !results[0].Permanent || !strings.Contains(results[0].Message, "the payload (1 bytes, of no content type)") {
			t.Errorf("undecodable: %+v", results)
		}
		c.ack(results)
		quit(t, s, leave, left)
	})
}

func TestBeatsGoOnWhileARunDoes(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		w := worker.New(s, worker.Options{})
		worker.Handle(w, "q", func(ctx context.Context, _ carillon.Run, _ carillon.Data) error { <-ctx.Done(); return nil })
		leave, left := start(t, w)
		c := s.next()
		short, long := run("short"), run("long")
		short.Lease, long.Lease = 4*time.Second, time.Hour
		c.deliver(short, long)
		c.said()
		beats := map[string]int{}
		for range 60 {
			pass(time.Second)
			for _, b := range c.said().Heartbeats {
				beats[b.Token]++
				if b.RunID != "run of "+b.Token {
					t.Errorf("beat: %+v", b)
				}
			}
		}
		if beats["short"] < 60 || beats["long"] < 6 || beats["long"] > 9 {
			t.Errorf("beats in a minute: %v", beats)
		}
		c.tell(carillon.WorkResponse{Cancel: []string{"short"}, Stale: []string{"long"}})
		if r := c.said(); len(r.Results) != 0 || grants(r, "q") != 2 {
			t.Errorf("after the end: %+v", r)
		}
		quit(t, s, leave, left)
	})
}

func TestWhyAContextEnds(t *testing.T) {
	type name string
	bubble(t, func(t *testing.T, s *server) {
		causes := make(chan error, 4)
		w := worker.New(s, worker.Options{})
		worker.Handle(w, "q", func(ctx context.Context, _ carillon.Run, _ carillon.Data) error {
			if ctx.Value(name("key")) != "value" {
				t.Error("the values of Run's context are missing")
			}
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return ctx.Err()
		})
		ctx, leave := context.WithCancel(context.WithValue(t.Context(), name("key"), "value"))
		left := make(chan error, 1)
		go func() { left <- w.Run(ctx) }()
		c := s.next()
		timed := run("timed")
		timed.Started = time.Now().Add(time.Hour) // the server's clock is ahead
		timed.Deadline = timed.Started.Add(time.Minute)
		before := time.Now()
		c.deliver(run("cancelled"), run("stale"), timed)
		c.tell(carillon.WorkResponse{Cancel: []string{"cancelled"}})
		if err := <-causes; !errors.Is(err, worker.ErrCancelled) {
			t.Errorf("cancelled: %v", err)
		}
		c.tell(carillon.WorkResponse{Stale: []string{"stale"}})
		if err := <-causes; !errors.Is(err, worker.ErrStale) {
			t.Errorf("stale: %v", err)
		}
		if err := <-causes; !errors.Is(err, context.DeadlineExceeded) || time.Since(before) != time.Minute {
			t.Errorf("timed: %v after %v", err, time.Since(before))
		}
		results := c.said().Results
		if len(results) != 1 || results[0].Token != "timed" {
			t.Errorf("results: %+v", results)
		}
		c.ack(results)
		quit(t, s, leave, left)
	})
}

func TestARunDeliveredTwiceIsStartedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		var started atomic.Int32
		goOn := make(chan struct{})
		w := worker.New(s, worker.Options{Concurrency: 10})
		worker.Handle(w, "q", func(context.Context, carillon.Run, carillon.Data) error { started.Add(1); <-goOn; return nil })
		leave, left := start(t, w)
		c := s.next()
		c.said()
		c.deliver(run("1"))
		c.deliver(run("1"))
		if r := c.said(); grants(r, "q") != 1 {
			t.Errorf("the credit of the second delivery was lost: %+v", r)
		}
		close(goOn)
		if r := c.said(); len(r.Results) != 1 || started.Load() != 1 {
			t.Errorf("%d starts, %+v", started.Load(), r)
		}
		c.deliver(run("1"))
		r := c.said()
		if len(r.Results) != 1 || started.Load() != 1 {
			t.Errorf("its result was not said again: %d starts, %+v", started.Load(), r)
		}
		c.ack(r.Results)
		quit(t, s, leave, left)
	})
}

func TestWhatIsTooMuchWaits(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		goOn, began := make(chan struct{}), make(chan string, 10)
		w := worker.New(s, worker.Options{Concurrency: 1})
		worker.Handle(w, "q", func(_ context.Context, r carillon.Run, _ carillon.Data) error {
			began <- r.Token
			<-goOn
			return nil
		})
		leave, left := start(t, w)
		c := s.next()
		c.deliver(run("1"), run("2"), run("3"))
		c.tell(carillon.WorkResponse{Cancel: []string{"2"}})
		if len(began) != 1 || <-began != "1" {
			t.Error("more than one was begun")
		}
		c.said()
		pass(time.Minute)
		if r := c.said(); len(r.Heartbeats) < 10 {
			t.Errorf("those who wait do not beat: %+v", r)
		}
		close(goOn)
		r := c.said()
		if len(r.Results) != 2 || r.Results[1].Token != "3" {
			t.Errorf("results: %+v", r.Results)
		}
		foreign := run("4")
		foreign.Queue = "nobody's"
		c.deliver(foreign)
		c.ack(r.Results)
		quit(t, s, leave, left)
	})
}

func TestMuchIsSaidInSeveralMessages(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		const n = 10_000
		w := worker.New(s, worker.Options{Concurrency: n})
		goOn := make(chan struct{})
		worker.Handle(w, "q", func(context.Context, carillon.Run, carillon.Data) error { <-goOn; return errors.New("no") })
		leave, left := start(t, w)
		c := s.next()
		runs := make([]carillon.Run, n)
		for i := range runs {
			runs[i] = run(fmt.Sprint(i))
		}
		c.deliver(runs...)
		c.said()
		pass(20 * time.Second)
		if r := c.said(); len(r.Heartbeats) < n {
			t.Errorf("%d beats", len(r.Heartbeats))
		}
		close(goOn)
		synctest.Wait()
		if len(c.requests) < 3 {
			t.Errorf("%d messages", len(c.requests))
		}
		r := c.said()
		if len(r.Results) != n || grants(r, "q") != n {
			t.Errorf("%d results, %d credits", len(r.Results), grants(r, "q"))
		}
		c.ack(r.Results)
		quit(t, s, leave, left)
	})
}

func TestResultsAreSaidUntilTheyAreAcknowledged(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		w := worker.New(s, worker.Options{})
		worker.Handle(w, "q", func(context.Context, carillon.Run, carillon.Data) error { return nil })
		leave, left := start(t, w)
		c := s.next()
		c.deliver(run("1"))
		if r := c.said(); len(r.Results) != 1 {
			t.Fatalf("at first: %+v", r)
		}
		pass(time.Minute)
		if r := c.said(); len(r.Results) < 5 || len(r.Heartbeats) != 0 {
			t.Errorf("in a minute: %+v", r)
		}
		c.lose()
		c = s.next()
		r := c.said()
		if len(r.Results) != 1 {
			t.Errorf("after a lost connection: %+v", r)
		}
		c.ack(r.Results)
		pass(time.Minute)
		if r := c.said(); len(r.Results) != 0 {
			t.Errorf("after it was acknowledged: %+v", r)
		}
		quit(t, s, leave, left)
	})
}

func TestFaultsOfHandlers(t *testing.T) {
	ok := func(context.Context, carillon.Run, carillon.Data) error { return nil }
	for want, add := range map[string]func(w *worker.Worker){
		"there is no handler":    func(*worker.Worker) {},
		"it has two handlers":    func(w *worker.Worker) { worker.Handle(w, "q", ok); worker.Handle(w, "q", ok) },
		"its handler is nil":     func(w *worker.Worker) { worker.Handle[int](w, "q", nil) },
		"0 runs at once are not": func(w *worker.Worker) { worker.Handle(w, "q", ok, worker.Limit(0)) },
	} {
		w := worker.New(newServer(), worker.Options{})
		add(w)
		if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "before") {
			t.Errorf("a second Run: %v", err)
		}
	}
}
