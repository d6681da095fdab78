package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/worker"
)

// lease is that of the runs of these tests.
const lease = 4 * time.Second

// leased is a run with a lease.
func leased(token string) carillon.Run {
	r := run(token)
	r.Lease = lease
	return r
}

// sentAgo is a message with runs that were sent a while ago, as far as is known.
func sentAgo(ago time.Duration, runs ...carillon.Run) carillon.WorkResponse {
	return carillon.WorkResponse{Runs: runs, Since: time.Now().Add(-ago)}
}

// startWith runs a worker of n slots that counts the handlers that have begun; they go on until goOn is
// closed.
func startWith(t *testing.T, s *server, n int,
	test func(c *session, begun *atomic.Int32, goOn chan struct{})) {
	t.Helper()
	var begun atomic.Int32
	goOn := make(chan struct{})
	w := worker.New(s, worker.Options{Concurrency: n})
	worker.Handle(w, "q", func(context.Context, carillon.Run, carillon.Data) error {
		begun.Add(1)
		<-goOn
		return nil
	})
	leave, left := start(t, w)
	c := s.next()
	c.sent()
	test(c, &begun, goOn)
	leaveAndWait(t, s, leave, left)
}

// questions returns the tokens of the attempts about which the worker asks.
func questions(r carillon.WorkRequest) (tokens []string) {
	for _, b := range r.Heartbeats {
		if b.Confirm {
			tokens = append(tokens, b.Token)
		}
	}
	return tokens
}

func TestAFreshRunStartsWithoutAQuestion(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		startWith(t, s, 3, func(c *session, begun *atomic.Int32, goOn chan struct{}) {
			c.send(sentAgo(0, leased("now")))
			c.send(sentAgo(lease/2, leased("soon")))
			c.deliver(leased("unknown")) // by a node that does not say when
			if r := c.sent(); begun.Load() != 3 || len(questions(r)) != 0 {
				t.Errorf("%d have begun, asked about %v", begun.Load(), questions(r))
			}
			close(goOn)
			c.ack(c.sent().Results)
		})
	})
}

func TestAnOldRunStartsWhenItIsConfirmed(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		startWith(t, s, 3, func(c *session, begun *atomic.Int32, goOn chan struct{}) {
			c.send(sentAgo(lease, leased("1"), leased("2"), leased("3")))
			if r := c.sent(); begun.Load() != 0 || len(questions(r)) != 3 {
				t.Fatalf("%d have begun, asked about %v", begun.Load(), questions(r))
			}
			c.send(carillon.WorkResponse{Confirmed: []string{"1"}, Stale: []string{"2"}, Cancel: []string{"3"}})
			if begun.Load() != 1 {
				t.Errorf("%d have begun", begun.Load())
			}
			if r := c.sent(); grants(r, "q") != 2 {
				t.Errorf("the room of what did not start is not granted again: %+v", r)
			}
			close(goOn)
			r := c.sent()
			if len(r.Results) != 1 || r.Results[0].Token != "1" {
				t.Errorf("results: %+v", r.Results)
			}
			c.ack(r.Results)
		})
	})
}

// TestAnAnswerMayBeTooOldItself: the worker was stopped again, and asks once more.
func TestAnAnswerMayBeTooOldItself(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		startWith(t, s, 1, func(c *session, begun *atomic.Int32, goOn chan struct{}) {
			c.send(sentAgo(lease, leased("1")))
			pass(2 * lease)
			if r := c.sent(); len(questions(r)) < 4 {
				t.Errorf("without an answer it asked about %v", questions(r))
			}
			c.send(carillon.WorkResponse{Confirmed: []string{"1"}})
			if r := c.sent(); begun.Load() != 0 || len(questions(r)) != 1 {
				t.Fatalf("%d have begun after an answer to an old question, asked about %v", begun.Load(), questions(r))
			}
			c.send(carillon.WorkResponse{Confirmed: []string{"1"}})
			if begun.Load() != 1 {
				t.Error("it did not begin")
			}
			close(goOn)
			c.ack(c.sent().Results)
		})
	})
}

// TestARunThatWaitedIsAskedAbout: it came through an older session's credits and has waited for room for
// longer than its lease.
func TestARunThatWaitedIsAskedAbout(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		startWith(t, s, 1, func(c *session, begun *atomic.Int32, goOn chan struct{}) {
			c.send(sentAgo(0, leased("1"), leased("2")))
			pass(2 * lease)
			c.sent()
			close(goOn)
			r := c.sent()
			if begun.Load() != 1 || len(questions(r)) != 1 {
				t.Fatalf("%d have begun, asked about %v", begun.Load(), questions(r))
			}
			c.ack(r.Results)
			c.send(carillon.WorkResponse{Confirmed: []string{"2"}})
			if r = c.sent(); begun.Load() != 2 {
				t.Error("it did not begin")
			}
			c.ack(r.Results)
		})
	})
}
