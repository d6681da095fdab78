package worker_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/worker"
)

func TestADrainingServerIsLeftForAnother(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		goOn := make(chan struct{})
		w := worker.New(s, worker.Options{Concurrency: 2})
		worker.Handle(w, "q", func(context.Context, carillon.Run, carillon.Data) error { <-goOn; return nil })
		leave, left := start(t, w)
		old := s.next()
		old.deliver(run("1"))
		old.sent()
		s.refuse(carillon.Errorf(carillon.Unavailable, "", "leaving"))
		old.send(carillon.WorkResponse{Drain: true})
		pass(30 * time.Second)
		if r := old.sent(); len(r.Heartbeats) < 3 || old.closed.Load() {
			t.Errorf("it was left too early: %+v", r)
		}
		s.refuse(nil)
		c := s.next()
		if r := c.sent(); len(r.Heartbeats) != 1 || grants(r, "q") != 1 || !old.closed.Load() {
			t.Errorf("afterwards: %+v, old closed: %v", r, old.closed.Load())
		}
		if r := old.sent(); r.Goodbye {
			t.Error("goodbye was said to the old one, which frees the run")
		}
		close(goOn)
		r := c.sent()
		c.ack(r.Results)
		leaveAndWait(t, s, leave, left)
	})
}

// TestALeavingWorkerSaysThatItLeaves, and not that it connects in order to.
func TestALeavingWorkerSaysGoodbye(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		var text strings.Builder
		w := worker.New(s, worker.Options{Log: slog.New(slog.NewTextHandler(&text, nil))})
		worker.Handle(w, "q", func(context.Context, carillon.Run, carillon.Data) error { return nil })
		leave, left := start(t, w)
		s.next()
		leaveAndWait(t, s, leave, left)
		_, last, _ := strings.Cut(text.String(), "the worker is leaving")
		if strings.Contains(last, "connected") || !strings.Contains(last, "the worker has left") {
			t.Errorf("it says\n%s", &text)
		}
	})
}
