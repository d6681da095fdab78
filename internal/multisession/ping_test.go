package multisession_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/multisession"
	"github.com/carillonhq/carillon/internal/partition"
)

// silenced ends the attempts of runs as their leases do, and returns once the worker has been asked for a
// sign of life.
func silenced(w *world, s carillon.Session, address string, runs []carillon.Run) {
	w.t.Helper()
	for i := range runs {
		w.nodes[address].hub.Cancel([]partition.Cancel{{Queue: queue, Token: runs[i].Token, Unheard: true}})
	}
	for {
		r, err := s.Receive(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		if r.Ping {
			return
		}
	}
}

// credits is how many deliveries may come now from a node.
func (w *world) credits(address string) int {
	sum := 0
	for _, q := range w.nodes[address].hub.Queues() {
		sum += q.Credits
	}
	return sum
}

// TestAnyWordAnswersAllWhoAsked: what the worker says goes to one node, and each that has asked hears that it
// lives.
func TestAnyWordAnswersAllWhoAsked(t *testing.T) {
	for name, nodes := range map[string][]string{"one node": {"a"}, "three": {"a", "b", "c"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nodes...)
				s := open(t, w, 60)
				for i, n := range nodes {
					w.put(n, i, i+1)
				}
				runs := receiveRuns(t, s, len(nodes))
				for _, n := range nodes {
					silenced(w, s, n, runs)
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

// TestASpreaderDoesNotSpeakForTheWorker: it moves credits by itself, for a worker that says nothing.
func TestASpreaderDoesNotSpeakForTheWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b")
		s := open(t, w, 60)
		w.put("a", 0, 1)
		silenced(w, s, "a", receiveRuns(t, s, 1))
		w.put("b", 1, 36) // which wants some of what a has
		receiveRuns(t, s, 35)
		synctest.Wait()
		if n := w.credits("a"); n != 0 {
			t.Errorf("%d credits of a silent worker count", n)
		}
		shut(t, s)
	})
}

// TestARelayDropsWhatTheWorkerLeft: runs wait in a relay for a worker that does not receive until their
// leases have ended. It gets none of those, and their credits are used for the next attempts.
func TestARelayDropsWhatTheWorkerLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b")
		hello := carillon.Hello{Queues: []string{"q"}, WorkerID: "w", Direct: true}
		first, err := w.reach(t.Context(), "a", hello)
		if err != nil {
			t.Fatal(err)
		}
		s := multisession.Open(first, multisession.Options{Hello: hello, Connect: w.reach, Over: func(run *carillon.Run) bool {
			return time.Since(run.Started) > run.Lease
		}})
		if r, err := s.Receive(t.Context()); err != nil || len(r.Nodes) != 2 {
			t.Fatalf("%+v, %v", r, err)
		}
		synctest.Wait()
		send(t, s, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: 8}}})
		w.put("a", 0, 2)
		w.put("b", 2, 4)
		<-time.After(3 * lease)
		for done := 0; done < 4; {
			r, err := s.Receive(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for i := range r.Runs {
				if age := time.Since(r.Runs[i].Started); age > lease {
					t.Errorf("%s came %v after it was handed out", r.Runs[i].Token, age)
				}
			}
			send(t, s, carillon.WorkRequest{Results: results(r.Runs)})
			done += len(r.Runs)
		}
		shut(t, s)
	})
}
