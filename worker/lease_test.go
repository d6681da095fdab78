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

// sent is a message with runs that were sent a while ago, as far as is known.
func sent(ago time.Duration, runs ...carillon.Run) carillon.WorkResponse {
	return carillon.WorkResponse{Runs: runs, Since: time.Now().Add(-ago)}
}

// starts runs a worker of n slots that counts the handlers that have begun; they go on until goOn is closed.
func starts(t *testing.T, s *server, n int, test func(c *session, begun *atomic.Int32, goOn chan struct{})) {
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
	c.said()
	test(c, &begun, goOn)
	quit(t, s, leave, left)
}

// asks is the tokens of the attempts about which the worker asks.
func asks(r carillon.WorkRequest) (tokens []string) {
	for _, b := range r.Heartbeats {
		if b.Confirm {
			tokens = append(tokens, b.Token)
		}
	}
	return tokens
}

func TestAFreshRunStartsWithoutAQuestion(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		starts(t, s, 3, func(c *session, begun *atomic.Int32, goOn chan struct{}) {
			c.tell(sent(0, leased("now")))
			c.tell(sent(lease/2, leased("soon")))
			c.deliver(leased("unknown")) // by a node that does not say when
			if r := c.said(); begun.Load() != 3 || len(asks(r)) != 0 {
				t.Errorf("%d have begun, asked about %v", begun.Load(), asks(r))
			}
			close(goOn)
			c.ack(c.said().Results)
		})
	})
}

func TestAnOldRunStartsWhenItIsConfirmed(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		starts(t, s, 3, func(c *session, begun *atomic.Int32, goOn chan struct{}) {
			c.tell(sent(lease, leased("1"), leased("2"), leased("3")))
			if r := c.said(); begun.Load() != 0 || len(asks(r)) != 3 {
				t.Fatalf("%d have begun, asked about %v", begun.Load(), asks(r))
			}
			c.tell(carillon.WorkResponse{Confirmed: []string{"1"}, Stale: []string{"2"}, Cancel: []string{"3"}})
			if begun.Load() != 1 {
				t.Errorf("%d have begun", begun.Load())
			}
			if r := c.said(); grants(r, "q") != 2 {
				t.Errorf("the room of what did not start is not granted again: %+v", r)
			}
			close(goOn)
			r := c.said()
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
		starts(t, s, 1, func(c *session, begun *atomic.Int32, goOn chan struct{}) {
			c.tell(sent(lease, leased("1")))
			pass(2 * lease)
			if r := c.said(); len(asks(r)) < 4 {
				t.Errorf("without an answer it asked about %v", asks(r))
			}
			c.tell(carillon.WorkResponse{Confirmed: []string{"1"}})
			if r := c.said(); begun.Load() != 0 || len(asks(r)) != 1 {
				t.Fatalf("%d have begun after an answer to an old question, asked about %v", begun.Load(), asks(r))
			}
			c.tell(carillon.WorkResponse{Confirmed: []string{"1"}})
			if begun.Load() != 1 {
				t.Error("it did not begin")
			}
			close(goOn)
			c.ack(c.said().Results)
		})
	})
}

// TestARunThatWaitedIsAskedAbout: it came through an older session's credits and has waited for room for
// longer than its lease.
func TestARunThatWaitedIsAskedAbout(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		starts(t, s, 1, func(c *session, begun *atomic.Int32, goOn chan struct{}) {
			c.tell(sent(0, leased("1"), leased("2")))
			pass(2 * lease)
			c.said()
			close(goOn)
			r := c.said()
			if begun.Load() != 1 || len(asks(r)) != 1 {
				t.Fatalf("%d have begun, asked about %v", begun.Load(), asks(r))
			}
			c.ack(r.Results)
			c.tell(carillon.WorkResponse{Confirmed: []string{"2"}})
			if r = c.said(); begun.Load() != 2 {
				t.Error("it did not begin")
			}
			c.ack(r.Results)
		})
	})
}

func TestAPingIsAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		starts(t, s, 1, func(c *session, _ *atomic.Int32, goOn chan struct{}) {
			c.tell(carillon.WorkResponse{Ping: true})
			if r := c.said(); !r.Pong {
				t.Errorf("it said %+v", r)
			}
			if r := c.said(); r.Pong {
				t.Error("it answered twice")
			}
			close(goOn)
		})
	})
}
