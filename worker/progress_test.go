package worker_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/worker"
)

// TestProgress: the first word goes out at once, then one a second with the newest; nothing is said once the
// attempt has ended.
func TestProgress(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		w := worker.New(s, worker.Options{})
		say := make(chan float64)
		worker.Handle(w, "q", func(ctx context.Context, _ carillon.Run, _ carillon.Data) error {
			for percent := range say {
				if err := worker.Progress(ctx, percent, fmt.Sprintf("at %v", percent)); err != nil {
					t.Error(err)
				}
			}
			return nil
		})
		leave, left := start(t, w)
		c := s.next()
		c.deliver(run("1"))
		c.sent()

		say <- 1
		wantProgress(t, c.sent(), 1)
		for percent := range 500 { // while time stands still
			say <- float64(percent) / 10
		}
		wantProgress(t, c.sent())
		pass(time.Second)
		wantProgress(t, c.sent(), 49.9)
		pass(10 * time.Second)
		wantProgress(t, c.sent()) // nothing new
		say <- 60
		wantProgress(t, c.sent(), 60) // at once, after a pause
		say <- 70
		close(say)
		r := c.sent()
		if len(r.Results) != 1 || r.Results[0].Outcome != carillon.OutcomeSuccess {
			t.Errorf("at the end: %+v", r.Results)
		}
		pass(5 * time.Second)
		for _, again := range c.sent().Results {
			if again.Outcome != carillon.OutcomeSuccess {
				t.Errorf("after the end: %+v", again)
			}
		}
		c.ack(r.Results)
		leaveAndWait(t, s, leave, left)
	})
}

// wantProgress checks the progress that was sent.
func wantProgress(t *testing.T, r carillon.WorkRequest, percents ...float64) {
	t.Helper()
	if len(r.Results) != len(percents) {
		t.Fatalf("said %+v, want %v", r.Results, percents)
	}
	for i, p := range percents {
		want := carillon.Result{Token: "1", RunID: "run of 1", Outcome: carillon.OutcomeProgress,
			Progress: carillon.Progress{Percent: p, Message: fmt.Sprintf("at %v", p)}}
		if fmt.Sprint(r.Results[i]) != fmt.Sprint(want) {
			t.Errorf("said %+v, want %+v", r.Results[i], want)
		}
	}
}

// TestProgressNeverWaits: without a connection it is kept, the newest only, and said to the next one.
func TestProgressNeverWaits(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		w := worker.New(s, worker.Options{})
		say, goOn := make(chan float64), make(chan struct{})
		worker.Handle(w, "q", func(ctx context.Context, _ carillon.Run, _ carillon.Data) error {
			for percent := range say {
				if err := worker.Progress(ctx, percent, fmt.Sprintf("at %v", percent)); err != nil {
					t.Error(err)
				}
			}
			<-goOn
			return nil
		})
		leave, left := start(t, w)
		c := s.next()
		c.deliver(run("1"))
		c.sent()
		s.refuse(carillon.Errorf(carillon.Unavailable, "", "gone"))
		c.breakOff()
		for percent := range 100 {
			say <- float64(percent)
			pass(100 * time.Millisecond)
		}
		close(say)
		s.refuse(nil)
		c = s.next()
		wantProgress(t, c.sent(), 99)
		close(goOn)
		c.ack(c.sent().Results)
		leaveAndWait(t, s, leave, left)
	})
}

// TestAcknowledgedProgressIsNoEnd: whatever a server answers to progress, the result is said until it is
// acknowledged itself.
func TestAcknowledgedProgressIsNoEnd(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		w := worker.New(s, worker.Options{})
		goOn := make(chan struct{})
		worker.Handle(w, "q", func(ctx context.Context, _ carillon.Run, _ carillon.Data) error {
			err := worker.Progress(ctx, 1, "at 1")
			<-goOn
			return err
		})
		leave, left := start(t, w)
		c := s.next()
		c.deliver(run("1"))
		r := c.sent()
		wantProgress(t, r, 1)
		c.ack(r.Results)
		close(goOn)
		if r = c.sent(); len(r.Results) != 1 || r.Results[0].Outcome != carillon.OutcomeSuccess {
			t.Fatalf("at the end: %+v", r.Results)
		}
		c.ack(r.Results)
		leaveAndWait(t, s, leave, left)
	})
}

func TestProgressOfManyGoesIntoSeveralMessages(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		const n = 9000
		w := worker.New(s, worker.Options{Concurrency: n})
		goOn := make(chan struct{})
		text := strings.Repeat("x", carillon.MaxProgressMessage)
		worker.Handle(w, "q", func(ctx context.Context, _ carillon.Run, _ carillon.Data) error {
			err := worker.Progress(ctx, 1, text)
			<-goOn
			return err
		})
		leave, left := start(t, w)
		c := s.next()
		runs := make([]carillon.Run, n)
		for i := range runs {
			runs[i] = run(fmt.Sprint(i))
		}
		c.deliver(runs...)
		total := 0
		for len(c.requests) > 0 {
			r := <-c.requests
			total += len(r.Results)
			if size := len(r.Results) * len(text); size > 2<<20 {
				t.Errorf("%d bytes in one message", size)
			}
		}
		if total != n {
			t.Errorf("progress of %d", total)
		}
		close(goOn)
		c.ack(c.sent().Results)
		leaveAndWait(t, s, leave, left)
	})
}

// TestWrongProgress: what is wrong is told to the handler, and nothing is sent: the server would end the
// session.
func TestWrongProgress(t *testing.T) {
	if err := worker.Progress(t.Context(), 1, ""); !errors.Is(err, worker.ErrNoRun) {
		t.Errorf("outside of a handler: %v", err)
	}
	bubble(t, func(t *testing.T, s *server) {
		w := worker.New(s, worker.Options{})
		kept := make(chan context.Context, 1)
		worker.Handle(w, "q", func(ctx context.Context, _ carillon.Run, _ carillon.Data) error {
			kept <- ctx
			for _, wrong := range []error{worker.Progress(ctx, math.NaN(), ""), worker.Progress(ctx, -1, ""),
				worker.Progress(ctx, 100.5, ""),
				worker.Progress(ctx, 1, strings.Repeat("x", carillon.MaxProgressMessage+1))} {
				if !errors.Is(wrong, carillon.InvalidArgument) {
					t.Errorf("accepted: %v", wrong)
				}
			}
			return nil
		})
		leave, left := start(t, w)
		c := s.next()
		c.deliver(run("1"))
		r := c.sent()
		if len(r.Results) != 1 || r.Results[0].Outcome != carillon.OutcomeSuccess {
			t.Errorf("said %+v", r.Results)
		}
		c.ack(r.Results)
		if err := worker.Progress(<-kept, 1, "late"); err != nil {
			t.Errorf("after the end: %v", err)
		}
		if r := c.sent(); len(r.Results) != 0 {
			t.Errorf("after the end it said %+v", r.Results)
		}
		leaveAndWait(t, s, leave, left)
	})
}
