package multisessiontest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
)

// TestWorkerIsServedByAllNodes: with few credits and with many, whichever nodes have runs.
func TestWorkerIsServedByAllNodes(t *testing.T) {
	for _, concurrency := range []int{1, 2, 3, 50} {
		t.Run(fmt.Sprint(concurrency), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newRig(t, "a", "b", "c")
				b := &sleeper{took: func() time.Duration { return 10 * time.Millisecond }}
				w.put("a", 0, 100)
				w.put("b", 100, 200)
				w.put("c", 200, 210)
				began := time.Now()
				stop := runWorker(t, w, concurrency, b.handle)
				<-w.all
				// Had a node to wait for a tick each time, it would take much longer.
				ideal := 210 * 10 * time.Millisecond / time.Duration(concurrency)
				if took := time.Since(began); took > 2*ideal+500*time.Millisecond {
					t.Errorf("it took %v instead of %v", took, ideal)
				}
				if int(b.most.Load()) > concurrency {
					t.Errorf("%d at once", b.most.Load())
				}
				stop()
				for run, times := range w.done {
					if times != 1 {
						t.Errorf("%s was done %d times", run, times)
					}
				}
			})
		})
	}
}

// TestAnyRequestAnswersAllPings: what the worker says goes to one node, and each that has asked hears that it
// lives.
func TestAnyRequestAnswersAllPings(t *testing.T) {
	for name, nodes := range map[string][]string{"one node": {"a"}, "three": {"a", "b", "c"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newRig(t, nodes...)
				s := open(t, w, 60)
				for i, n := range nodes {
					w.put(n, i, i+1)
				}
				runs := receiveRuns(t, s, len(nodes))
				for _, n := range nodes {
					expireLeases(w, s, n, runs)
					if w.credits(n) != 0 {
						t.Errorf("%s: %d credits of a silent worker count", n, w.credits(n))
					}
				}
				send(t, s, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: 1}}})
				for _, n := range nodes {
					if w.credits(n) == 0 {
						t.Errorf("%s has not heard that the worker lives", n)
					}
				}
				shut(t, s)
			})
		})
	}
}

// TestMovedCreditsAnswerNoPing: it moves credits by itself, for a worker that says nothing.
func TestMovedCreditsAnswerNoPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRig(t, "a", "b")
		s := open(t, w, 60)
		w.put("a", 0, 1)
		expireLeases(w, s, "a", receiveRuns(t, s, 1))
		w.put("b", 1, 36) // which wants some of what a has
		receiveRuns(t, s, 35)
		synctest.Wait()
		if n := w.credits("a"); n != 0 {
			t.Errorf("%d credits of a silent worker count", n)
		}
		shut(t, s)
	})
}

// TestWithdrawalFromAllNodes: a worker can take back what is unused, wherever it is.
func TestWithdrawalFromAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRig(t, "a", "b", "c")
		s := open(t, w, 10)
		w.put("b", 0, 3)
		receiveRuns(t, s, 3)
		for _, c := range []struct{ ask, get int }{{2, 2}, {100, 5}, {1, 0}} {
			send(t, s, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: -c.ask}}})
			r, err := s.Receive(t.Context())
			if err != nil || len(r.Withdrawn) != 1 || r.Withdrawn[0] != (carillon.Credit{Queue: "q", N: c.get}) {
				t.Errorf("asked for %d: %+v, %v", c.ask, r, err)
			}
		}
		w.put("c", 3, 4)
		synctest.Wait()
		send(t, s, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: 1}}})
		receiveRuns(t, s, 1)
		shut(t, s)
	})
}

// TestWithdrawalFromASingleNode: the same through a single node.
func TestWithdrawalFromASingleNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRig(t, "a")
		s := open(t, w, 10)
		w.put("a", 0, 3)
		receiveRuns(t, s, 3)
		send(t, s, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: -2}, {Queue: "q", N: -100},
			{Queue: "q", N: -1}}})
		got := 0
		for answers := 0; answers < 3; {
			r, err := s.Receive(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			answers += len(r.Withdrawn)
			for _, c := range r.Withdrawn {
				got += c.N
			}
		}
		if got != 7 {
			t.Errorf("got %d back", got)
		}
		shut(t, s)
	})
}

// TestGoodbyeReachesAllNodes: what the worker has is free at once on every node.
func TestGoodbyeReachesAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRig(t, "a", "b")
		s := open(t, w, 4)
		w.put("a", 0, 2)
		w.put("b", 2, 4)
		receiveRuns(t, s, 4)
		send(t, s, carillon.WorkRequest{Goodbye: true})
		synctest.Wait()
		if len(w.held) != 0 {
			t.Errorf("%d runs are still held", len(w.held))
		}
		if err := s.Send(t.Context(), carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q",
			N: 1}}}); !errors.Is(err, carillon.FailedPrecondition) {
			t.Errorf("credits after goodbye: %v", err)
		}
		shut(t, s)
	})
}

// TestInvalidRequestsAreRefused: by the session itself, whichever node would hear of them.
func TestInvalidRequestsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRig(t, "a", "b")
		s := open(t, w, 1)
		err := s.Send(t.Context(), carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "other", N: 1}}})
		if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.InvalidArgument ||
			e.Field != "credits.queue" {
			t.Errorf("%v", err)
		}
		shut(t, s)
		if err := s.Send(t.Context(), carillon.WorkRequest{Goodbye: true}); !errors.Is(err, carillon.Canceled) {
			t.Errorf("after its end: %v", err)
		}
	})
}

// TestContextEndsTheSession: no session and no goroutine is left.
func TestContextEndsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRig(t, "a", "b")
		s := open(t, w, 1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Receive(ctx); !errors.Is(err, carillon.Canceled) {
			t.Errorf("%v", err)
		}
		synctest.Wait()
		for _, d := range w.living() {
			if len(d.hub.Workers()) != 0 {
				t.Errorf("the worker is still with %s", d.address)
			}
		}
	})
}
