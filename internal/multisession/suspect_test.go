package multisession_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/multisession"
)

// silence is a worker with n runs of node b, of three, and 4 credits that are unused.
func silence(t *testing.T, n int, test func(w *world, s carillon.Session, runs []carillon.Run)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b", "c")
		s := open(t, w, n+4)
		w.put("b", 0, n)
		test(w, s, receiveRuns(t, s, n))
		shut(t, s)
	})
}

// keepBeating sends heartbeats as the SDK does.
func keepBeating(w *world, s carillon.Session, runs []carillon.Run, times int) {
	w.t.Helper()
	for range times {
		<-time.After(lease / 4)
		send(w.t, s, carillon.WorkRequest{Heartbeats: beats(runs)})
	}
}

func beats(runs []carillon.Run) (bs []carillon.Heartbeat) {
	for i := range runs {
		bs = append(bs, carillon.Heartbeat{Token: runs[i].Token, RunID: runs[i].ID})
	}
	return bs
}

// alive is how many attempts have their leases.
func (w *world) alive() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.held)
}

// acks receives the answers to results; each comes once.
func acks(t *testing.T, s carillon.Session, n int) {
	t.Helper()
	seen := map[string]bool{}
	for len(seen) < n {
		r, err := s.Receive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, token := range r.Acks {
			if seen[token] {
				t.Errorf("%s was answered twice", token)
			}
			seen[token] = true
		}
		if len(r.Stale) > 0 {
			t.Errorf("%s is stale", r.Stale[0])
		}
	}
}

// TestBeatsFollowASilentNode: they go by another, so that no lease ends.
func TestBeatsFollowASilentNode(t *testing.T) {
	silence(t, 3, func(w *world, s carillon.Session, runs []carillon.Run) {
		w.nodes["b"].cut.Store(true)
		keepBeating(w, s, runs, 20)
		if n := w.alive(); n != 3 {
			w.t.Errorf("%d of 3 attempts are alive", n)
		}
		w.nodes["b"].cut.Store(false)
		synctest.Wait()
		<-time.After(time.Second)
		before := w.nodes["a"].beats.Load() + w.nodes["c"].beats.Load()
		keepBeating(w, s, runs, 4)
		if after := w.nodes["a"].beats.Load() + w.nodes["c"].beats.Load(); after != before {
			w.t.Errorf("others hear beats of a node that speaks")
		}
		send(w.t, s, carillon.WorkRequest{Results: results(runs)})
		acks(w.t, s, 3)
	})
}

// TestAResultFollowsASilentNode: it is acknowledged through another in about a second, and counts once, also
// when the node speaks again.
func TestAResultFollowsASilentNode(t *testing.T) {
	silence(t, 3, func(w *world, s carillon.Session, runs []carillon.Run) {
		w.nodes["b"].cut.Store(true)
		keepBeating(w, s, runs, 1) // it hears of them when it speaks again
		began := time.Now()
		send(w.t, s, carillon.WorkRequest{Results: results(runs[:2])})
		acks(w.t, s, 2)
		send(w.t, s, carillon.WorkRequest{Results: results(runs[2:])})
		acks(w.t, s, 1)
		if took := time.Since(began); took > 1500*time.Millisecond {
			w.t.Errorf("it took %v", took)
		}
		w.nodes["b"].cut.Store(false)
		<-time.After(time.Second)
		nothingMore(w, s, "b")
		for _, r := range runs {
			if w.done[r.ID] != 1 {
				w.t.Errorf("%s was done %d times", r.ID, w.done[r.ID])
			}
		}
	})
}

// TestANodeThatIsAskedIsNotDoubted: one with nothing to say hears heartbeats alone, and the credits that it
// is asked about are not lost.
func TestANodeThatIsAskedIsNotDoubted(t *testing.T) {
	silence(t, 3, func(w *world, s carillon.Session, runs []carillon.Run) {
		keepBeating(w, s, runs, 40)
		if n := w.nodes["a"].beats.Load() + w.nodes["c"].beats.Load(); n > 0 {
			w.t.Errorf("others have heard %d beats", n)
		}
		send(w.t, s, carillon.WorkRequest{Results: results(runs)})
		acks(w.t, s, 3)
		send(w.t, s, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: -100}}})
		for got := -1; got != 4; {
			r, err := s.Receive(w.t.Context())
			if err != nil {
				w.t.Fatal(err)
			}
			if len(r.Withdrawn) > 0 {
				if got = r.Withdrawn[0].N; got != 4 {
					w.t.Fatalf("%d of 4 credits are left", got)
				}
			}
		}
	})
}

// TestNobodyToTurnTo: with all nodes silent what was said arrives when they speak, in whatever order, and a
// heartbeat that comes when the result has been heard elsewhere is not taken for the last word.
func TestNobodyToTurnTo(t *testing.T) {
	for _, order := range []string{"abc", "acb", "bac", "bca", "cab", "cba"} {
		for _, gap := range []time.Duration{0, time.Second} {
			t.Run(fmt.Sprintf("%s, %v apart", order, gap), func(t *testing.T) {
				silence(t, 3, func(w *world, s carillon.Session, runs []carillon.Run) {
					for _, d := range w.nodes {
						d.cut.Store(true)
					}
					keepBeating(w, s, runs, 2)
					send(w.t, s, carillon.WorkRequest{Results: results(runs)})
					<-time.After(time.Second)
					go func() {
						for _, address := range order {
							w.nodes[string(address)].cut.Store(false)
							<-time.After(gap)
						}
					}()
					acks(w.t, s, 3)
					<-time.After(4 * time.Second)
					nothingMore(w, s, "b")
				})
			})
		}
	}
}

// nothingMore receives until a further run comes from a node, with which no answer does.
func nothingMore(w *world, s carillon.Session, address string) {
	w.t.Helper()
	w.put(address, 3, 4)
	for {
		r, err := s.Receive(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		if len(r.Acks)+len(r.Stale) > 0 {
			w.t.Errorf("answered again: %v, %v", r.Acks, r.Stale)
		}
		if len(r.Runs) > 0 {
			return
		}
	}
}

// TestARunWhoseLeaseEndedOnItsWayIsDropped, and its credit is used for the next attempt.
func TestARunWhoseLeaseEndedOnItsWayIsDropped(t *testing.T) {
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
		send(t, s, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: 4}}})
		w.nodes["b"].cut.Store(true)
		w.put("b", 0, 2)
		<-time.After(time.Second)
		time.AfterFunc(3*lease, func() { w.nodes["b"].cut.Store(false) })
		ctx, cancel := context.WithTimeout(t.Context(), 4*lease)
		defer cancel()
		for {
			r, err := s.Receive(ctx)
			if err != nil {
				break
			}
			for i := range r.Runs {
				if age := time.Since(r.Runs[i].Started); age > lease {
					t.Errorf("%s came %v after it was handed out", r.Runs[i].Token, age)
				}
			}
			if len(r.Runs) > 0 {
				send(t, s, carillon.WorkRequest{Results: results(r.Runs)})
			}
		}
		for _, run := range []string{"run 00000", "run 00001"} {
			if w.done[run] != 1 {
				t.Errorf("%s was done %d times", run, w.done[run])
			}
		}
	})
}

// reportBy sends results, does something and receives their answers, which must come soon.
func reportBy(w *world, s carillon.Session, rs []carillon.Result, meanwhile func(), within time.Duration) {
	w.t.Helper()
	began := time.Now()
	send(w.t, s, carillon.WorkRequest{Results: rs})
	meanwhile()
	late := time.AfterFunc(time.Minute, func() { _ = s.Close() }) // then receiving fails
	defer late.Stop()
	acks(w.t, s, len(rs))
	if took := time.Since(began); took > within {
		w.t.Errorf("it took %v", took)
	}
}

// TestTheOneThatWasTurnedToIsLost: what a silent node was told before is then told to a third.
func TestTheOneThatWasTurnedToIsLost(t *testing.T) {
	silence(t, 3, func(w *world, s carillon.Session, runs []carillon.Run) {
		w.nodes["b"].cut.Store(true)
		w.nodes["a"].deaf = true
		reportBy(w, s, results(runs), func() {
			<-time.After(1200 * time.Millisecond)
			w.kill("a")
		}, 1500*time.Millisecond)
	})
}

// TestSomebodySpeaksAgain: one that was suspected while there was nobody to turn to need not speak itself.
func TestSomebodySpeaksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b", "c")
		s := open(t, w, 10)
		for i, address := range []string{"a", "b", "c"} {
			w.put(address, i, i+1)
		}
		runs := receiveRuns(t, s, 3)
		for _, d := range w.nodes {
			d.cut.Store(true)
		}
		reportBy(w, s, results(runs), func() {
			<-time.After(2 * time.Second)
			w.nodes["a"].cut.Store(false)
		}, 3500*time.Millisecond)
		shut(t, s)
	})
}

// TestANodeThatFallsSilentLater: it has spoken after it was told a result, but not of that.
func TestANodeThatFallsSilentLater(t *testing.T) {
	silence(t, 3, func(w *world, s carillon.Session, runs []carillon.Run) {
		w.nodes["b"].deaf = true
		reportBy(w, s, results(runs), func() {
			<-time.After(700 * time.Millisecond) // it was asked for a word, and has given it
			w.nodes["b"].cut.Store(true)
		}, 2500*time.Millisecond)
	})
}

// TestBeatsOfTwoNodesAreKeptApart while both wait to be sent.
func TestBeatsOfTwoNodesAreKeptApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b", "c")
		s := open(t, w, 8) // which are all used: none are on their way meanwhile
		w.put("b", 0, 6)
		ofB := receiveRuns(t, s, 6)
		w.put("a", 6, 8)
		ofA := receiveRuns(t, s, 2)
		beat := func(runs ...carillon.Run) { send(t, s, carillon.WorkRequest{Heartbeats: beats(runs)}) }
		w.nodes["b"].cut.Store(true)
		beat(ofB...)
		<-time.After(600 * time.Millisecond) // b is suspected, a is not
		w.nodes["a"].cut.Store(true)
		beat(ofA[0])         // fills the way to a
		beat(ofB[:5]...)     // waits for both
		beat(ofA[1], ofB[5]) // and so does this
		spoke := time.Now()
		w.nodes["a"].cut.Store(false)
		<-time.After(50 * time.Millisecond)
		w.mu.Lock()
		for _, r := range slices.Concat(ofA, ofB) {
			if h := w.held[r.Token]; h == nil || h.alive.Before(spoke) {
				t.Errorf("a beat of %s got lost", r.Token)
			}
		}
		w.mu.Unlock()
		w.nodes["b"].cut.Store(false)
		shut(t, s)
	})
}

// awaitNodes receives until a node says that there are n.
func awaitNodes(t *testing.T, s carillon.Session, n int) {
	t.Helper()
	for {
		if r, err := s.Receive(t.Context()); err != nil {
			t.Fatal(err)
		} else if len(r.Nodes) == n {
			return
		}
	}
}

// TestWhoHearsOfALostNodesRunsStays: when a better one comes, what is on its way to the first is not answered
// once more.
func TestWhoHearsOfALostNodesRunsStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b", "c")
		s := open(t, w, 8)
		w.put("a", 0, 1)
		runs := receiveRuns(t, s, 1)
		w.put("b", 1, 2)
		receiveRuns(t, s, 1) // so that b stays
		b := w.nodes["b"]
		if err := b.hub.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.kill("a")
		awaitNodes(t, s, 2)
		w.kill("c")
		awaitNodes(t, s, 1)
		w.start("c") // it is connected after a moment
		awaitNodes(t, s, 2)
		b.cut.Store(true)
		send(t, s, carillon.WorkRequest{Heartbeats: beats(runs)})
		<-time.After(time.Second)
		send(t, s, carillon.WorkRequest{Results: results(runs)})
		acks(t, s, 1)
		b.cut.Store(false)
		<-time.After(time.Second)
		nothingMore(w, s, "c")
		shut(t, s)
	})
}
