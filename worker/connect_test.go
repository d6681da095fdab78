package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/worker"
)

func TestALostConnectionIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		goOn := make(chan struct{})
		w := worker.New(s, worker.Options{Concurrency: 2, ID: "me"})
		worker.Handle(w, "q", func(context.Context, carillon.Run, carillon.Data) error { <-goOn; return nil })
		leave, left := start(t, w)
		c := s.next()
		c.deliver(run("1"))
		c.sent()
		c.breakOff()
		c = s.next()
		if r := c.sent(); grants(r, "q") != 1 || len(r.Heartbeats) != 1 || r.Heartbeats[0].Token != "1" {
			t.Errorf("on the new connection: %+v", r)
		}
		if s.hellos()[1].WorkerID != "me" {
			t.Errorf("hello: %+v", s.hellos()[1])
		}
		close(goOn)
		r := c.sent()
		if len(r.Results) != 1 || r.Results[0].Token != "1" || grants(r, "q") != 1 {
			t.Errorf("result: %+v", r)
		}
		c.ack(r.Results)
		leaveAndWait(t, s, leave, left)
	})
}

func TestConnectingBacksOff(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		s.refuse(carillon.Errorf(carillon.Unavailable, "", "not yet"))
		w := worker.New(s, worker.Options{})
		worker.Handle(w, "q", func(context.Context, carillon.Run, carillon.Data) error { return nil })
		leave, left := start(t, w)
		pass(time.Minute)
		if n := len(s.hellos()); n < 12+5 || n > 24+10 {
			t.Errorf("%d attempts in a minute", n)
		}
		s.refuse(nil)
		s.next()
		leaveAndWait(t, s, leave, left)
	})
}

func TestARefusalEndsTheWorker(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		s.refuse(carillon.Errorf(carillon.PermissionDenied, "", "no"))
		w := worker.New(s, worker.Options{})
		worker.Handle(w, "q", func(context.Context, carillon.Run, carillon.Data) error { return nil })
		if err := w.Run(t.Context()); !errors.Is(err, carillon.PermissionDenied) {
			t.Errorf("run: %v", err)
		}
	})
}

func TestALeavingWorkerFinishesItsRuns(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		goOn := make(chan struct{})
		w := worker.New(s, worker.Options{Concurrency: 2, Grace: time.Hour})
		worker.Handle(w, "q", func(context.Context, carillon.Run, carillon.Data) error { <-goOn; return nil })
		leave, left := start(t, w)
		c := s.next()
		c.deliver(run("1"))
		c.sent()
		leave()
		c = s.next()
		if r := c.sent(); len(r.Credits) != 0 || len(r.Heartbeats) != 1 {
			t.Errorf("while it leaves: %+v", r)
		}
		pass(time.Minute)
		if len(left) != 0 {
			t.Fatalf("it left: %v", <-left)
		}
		close(goOn)
		r := c.sent()
		if len(r.Results) != 1 || len(left) != 0 {
			t.Errorf("at the end: %+v", r)
		}
		c.ack(r.Results)
		if err := <-left; err != nil {
			t.Errorf("run: %v", err)
		}
		if r := c.sent(); r.Goodbye {
			t.Error("goodbye was said although nothing was left")
		}
	})
}

func TestWhatCannotBeFinishedIsGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		goOn := make(chan struct{})
		w := worker.New(s, worker.Options{Concurrency: 3, Grace: time.Minute})
		worker.Handle(w, "q", func(ctx context.Context, r carillon.Run, _ carillon.Data) error {
			<-ctx.Done()
			switch r.Token {
			case "saved":
				return nil // what it had done was enough
			case "stuck":
				<-goOn
			}
			return context.Cause(ctx)
		})
		leave, left := start(t, w)
		c := s.next()
		c.deliver(run("saved"), run("given up"), run("stuck"))
		c.sent()
		leave()
		c = s.next()
		began := time.Now()
		pass(time.Minute)
		r := c.sent()
		if len(r.Results) != 1 || r.Results[0].Token != "saved" ||
			r.Results[0].Outcome != carillon.OutcomeSuccess || r.Goodbye {
			t.Errorf("after the grace: %+v", r)
		}
		c.ack(r.Results)
		err := <-left
		if err == nil || time.Since(began) > 2*time.Minute {
			t.Errorf("run: %v after %v", err, time.Since(began))
		}
		if r := c.sent(); !r.Goodbye {
			t.Errorf("no goodbye: %+v", r)
		}
		close(goOn)
	})
}

// TestHandlersHaveTimeToReturn: what returns within it has a result and is not given back.
func TestHandlersHaveTimeToReturn(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		w := worker.New(s, worker.Options{Grace: -1, ReturnTime: 10 * time.Second})
		worker.Handle(w, "q", func(ctx context.Context, _ carillon.Run, _ carillon.Data) error {
			<-ctx.Done()
			<-time.After(8 * time.Second)
			return nil
		})
		leave, left := start(t, w)
		c := s.next()
		c.deliver(run("1"))
		c.sent()
		leave()
		c = s.next()
		pass(8 * time.Second)
		r := c.sent()
		if len(r.Results) != 1 || r.Results[0].Outcome != carillon.OutcomeSuccess || r.Goodbye {
			t.Fatalf("when it returned: %+v", r)
		}
		c.ack(r.Results)
		if err := <-left; err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

func TestLeavingWithoutAServerEnds(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		w := worker.New(s, worker.Options{Grace: time.Minute})
		worker.Handle(w, "q", func(context.Context, carillon.Run, carillon.Data) error { return nil })
		leave, left := start(t, w)
		c := s.next()
		c.deliver(run("1"))
		c.breakOff()
		s.refuse(carillon.Errorf(carillon.Unavailable, "", "gone"))
		leave()
		if err := <-left; err == nil {
			t.Error("a result was lost and nothing said")
		}
	})
}
