package worker_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/worker"
)

func TestHeartbeatsWhileARunGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		w := worker.New(s, worker.Options{})
		worker.Handle(w, "q", func(ctx context.Context, _ carillon.Run, _ carillon.Data) error {
			<-ctx.Done()
			return nil
		})
		leave, left := start(t, w)
		c := s.next()
		short, long := run("short"), run("long")
		short.Lease, long.Lease = 4*time.Second, time.Hour
		c.deliver(short, long)
		c.sent()
		beats := map[string]int{}
		for range 60 {
			pass(time.Second)
			for _, b := range c.sent().Heartbeats {
				beats[b.Token]++
				if b.RunID != "run of "+b.Token {
					t.Errorf("beat: %+v", b)
				}
			}
		}
		if beats["short"] < 60 || beats["long"] < 6 || beats["long"] > 9 {
			t.Errorf("beats in a minute: %v", beats)
		}
		c.send(carillon.WorkResponse{Cancel: []string{"short"}, Stale: []string{"long"}})
		if r := c.sent(); len(r.Results) != 0 || grants(r, "q") != 2 {
			t.Errorf("after the end: %+v", r)
		}
		leaveAndWait(t, s, leave, left)
	})
}

func TestManyResultsTakeSeveralMessages(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		const n = 10_000
		w := worker.New(s, worker.Options{Concurrency: n})
		goOn := make(chan struct{})
		worker.Handle(w, "q", func(context.Context, carillon.Run, carillon.Data) error {
			<-goOn
			return errors.New("no")
		})
		leave, left := start(t, w)
		c := s.next()
		runs := make([]carillon.Run, n)
		for i := range runs {
			runs[i] = run(fmt.Sprint(i))
		}
		c.deliver(runs...)
		c.sent()
		pass(20 * time.Second)
		if r := c.sent(); len(r.Heartbeats) < n {
			t.Errorf("%d beats", len(r.Heartbeats))
		}
		close(goOn)
		synctest.Wait()
		if len(c.requests) < 3 {
			t.Errorf("%d messages", len(c.requests))
		}
		r := c.sent()
		if len(r.Results) != n || grants(r, "q") != n {
			t.Errorf("%d results, %d credits", len(r.Results), grants(r, "q"))
		}
		c.ack(r.Results)
		leaveAndWait(t, s, leave, left)
	})
}

func TestManyHeartbeatsAfterALostConnection(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		const n = 10_000
		w := worker.New(s, worker.Options{Concurrency: n})
		goOn := make(chan struct{})
		worker.Handle(w, "q", func(context.Context, carillon.Run, carillon.Data) error { <-goOn; return nil })
		leave, left := start(t, w)
		c := s.next()
		runs := make([]carillon.Run, n)
		for i := range runs {
			runs[i] = run(fmt.Sprint(i))
		}
		c.deliver(runs...)
		c.sent()
		c.breakOff()
		c = s.next()
		if r := c.sent(); len(r.Heartbeats) != n {
			t.Errorf("%d heartbeats at once", len(r.Heartbeats))
		}
		close(goOn)
		c.ack(c.sent().Results)
		leaveAndWait(t, s, leave, left)
	})
}

func TestResultsAreSentUntilAcknowledged(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		w := worker.New(s, worker.Options{})
		worker.Handle(w, "q", func(context.Context, carillon.Run, carillon.Data) error { return nil })
		leave, left := start(t, w)
		c := s.next()
		c.deliver(run("1"))
		if r := c.sent(); len(r.Results) != 1 {
			t.Fatalf("at first: %+v", r)
		}
		pass(time.Minute)
		if r := c.sent(); len(r.Results) < 5 || len(r.Heartbeats) != 0 {
			t.Errorf("in a minute: %+v", r)
		}
		c.breakOff()
		c = s.next()
		r := c.sent()
		if len(r.Results) != 1 {
			t.Errorf("after a lost connection: %+v", r)
		}
		c.ack(r.Results)
		pass(time.Minute)
		if r := c.sent(); len(r.Results) != 0 {
			t.Errorf("after it was acknowledged: %+v", r)
		}
		leaveAndWait(t, s, leave, left)
	})
}

func TestAPingIsAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		startWith(t, s, 1, func(c *session, _ *atomic.Int32, goOn chan struct{}) {
			c.send(carillon.WorkResponse{Ping: true})
			if r := c.sent(); !r.Pong {
				t.Errorf("it said %+v", r)
			}
			if r := c.sent(); r.Pong {
				t.Error("it answered twice")
			}
			close(goOn)
		})
	})
}
