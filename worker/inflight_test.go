package worker_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/worker"
)

func TestCreditsAreGrantedForRoom(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		w := worker.New(s, worker.Options{Concurrency: 3, ID: "me", Labels: map[string]string{"a": "b"}})
		goOn := make(chan struct{})
		worker.Handle(w, "q", func(context.Context, carillon.Run, carillon.Data) error { <-goOn; return nil })
		worker.Handle(w, "other", func(context.Context, carillon.Run, carillon.Data) error { return nil },
			worker.Limit(5))
		leave, left := start(t, w)
		c := s.next()
		if h := s.hellos()[0]; h.WorkerID != "me" || h.Namespace != "default" ||
			!slices.Equal(h.Queues, []string{"q", "other"}) || h.Labels["a"] != "b" {
			t.Errorf("hello: %+v", h)
		}
		if r := c.sent(); grants(r, "q") != 3 || grants(r, "other") != 5 {
			t.Errorf("first credits: %+v", r)
		}
		c.deliver(run("1"), run("2"))
		if r := c.sent(); grants(r, "q") != 0 {
			t.Errorf("credits while they are in use: %+v", r)
		}
		close(goOn)
		r := c.sent()
		if grants(r, "q") != 2 || len(r.Results) != 2 || r.Results[0].Outcome != carillon.OutcomeSuccess {
			t.Errorf("afterwards: %+v", r)
		}
		c.ack(r.Results)
		leaveAndWait(t, s, leave, left)
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
		c.send(carillon.WorkResponse{Cancel: []string{"cancelled"}})
		if err := <-causes; !errors.Is(err, worker.ErrCancelled) {
			t.Errorf("cancelled: %v", err)
		}
		c.send(carillon.WorkResponse{Stale: []string{"stale"}})
		if err := <-causes; !errors.Is(err, worker.ErrStale) {
			t.Errorf("stale: %v", err)
		}
		if err := <-causes; !errors.Is(err, context.DeadlineExceeded) || time.Since(before) != time.Minute {
			t.Errorf("timed: %v after %v", err, time.Since(before))
		}
		results := c.sent().Results
		if len(results) != 1 || results[0].Token != "timed" {
			t.Errorf("results: %+v", results)
		}
		c.ack(results)
		leaveAndWait(t, s, leave, left)
	})
}

func TestARunDeliveredTwiceIsStartedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		var started atomic.Int32
		goOn := make(chan struct{})
		w := worker.New(s, worker.Options{Concurrency: 10})
		worker.Handle(w, "q", func(context.Context, carillon.Run, carillon.Data) error {
			started.Add(1)
			<-goOn
			return nil
		})
		leave, left := start(t, w)
		c := s.next()
		c.sent()
		c.deliver(run("1"))
		c.deliver(run("1"))
		if r := c.sent(); grants(r, "q") != 1 {
			t.Errorf("the credit of the second delivery was lost: %+v", r)
		}
		close(goOn)
		if r := c.sent(); len(r.Results) != 1 || started.Load() != 1 {
			t.Errorf("%d starts, %+v", started.Load(), r)
		}
		c.deliver(run("1"))
		r := c.sent()
		if len(r.Results) != 1 || started.Load() != 1 {
			t.Errorf("its result was not said again: %d starts, %+v", started.Load(), r)
		}
		c.ack(r.Results)
		leaveAndWait(t, s, leave, left)
	})
}

func TestRunsBeyondTheLimitWait(t *testing.T) {
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
		c.send(carillon.WorkResponse{Cancel: []string{"2"}})
		if len(began) != 1 || <-began != "1" {
			t.Error("more than one was begun")
		}
		c.sent()
		pass(time.Minute)
		if r := c.sent(); len(r.Heartbeats) < 10 {
			t.Errorf("those who wait do not beat: %+v", r)
		}
		close(goOn)
		r := c.sent()
		if len(r.Results) != 2 || r.Results[1].Token != "3" {
			t.Errorf("results: %+v", r.Results)
		}
		foreign := run("4")
		foreign.Queue = "nobody's"
		c.deliver(foreign)
		c.ack(r.Results)
		leaveAndWait(t, s, leave, left)
	})
}
