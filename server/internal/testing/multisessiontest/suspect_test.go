package multisessiontest_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
)

// TestHeartbeatsOfASilentNodeMove: they go by another, so that no lease ends.
func TestHeartbeatsOfASilentNodeMove(t *testing.T) {
	withRunsOfB(t, 3, func(w *rig, s carillon.Session, runs []carillon.Run) {
		w.nodes["b"].isolated.Store(true)
		keepBeating(w, s, runs, 20)
		if n := w.alive(); n != 3 {
			w.t.Errorf("%d of 3 attempts are alive", n)
		}
		w.nodes["b"].isolated.Store(false)
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

// TestResultsOfASilentNodeMove: it is acknowledged through another in about a second, and counts once, also
// when the node speaks again.
func TestResultsOfASilentNodeMove(t *testing.T) {
	withRunsOfB(t, 3, func(w *rig, s carillon.Session, runs []carillon.Run) {
		w.nodes["b"].isolated.Store(true)
		keepBeating(w, s, runs, 1) // it hears of them when it speaks again
		began := time.Now()
		send(w.t, s, carillon.WorkRequest{Results: results(runs[:2])})
		acks(w.t, s, 2)
		send(w.t, s, carillon.WorkRequest{Results: results(runs[2:])})
		acks(w.t, s, 1)
		if took := time.Since(began); took > 1500*time.Millisecond {
			w.t.Errorf("it took %v", took)
		}
		w.nodes["b"].isolated.Store(false)
		<-time.After(time.Second)
		nothingMore(w, s, "b")
		for _, r := range runs {
			if w.done[r.ID] != 1 {
				w.t.Errorf("%s was done %d times", r.ID, w.done[r.ID])
			}
		}
	})
}

// TestNodeThatAnswersPingsIsNotSuspect: one with nothing to say hears heartbeats alone, and the credits that
// it is asked about are not lost.
func TestNodeThatAnswersPingsIsNotSuspect(t *testing.T) {
	withRunsOfB(t, 3, func(w *rig, s carillon.Session, runs []carillon.Run) {
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

// TestAllNodesSilent: with all nodes silent what was said arrives when they speak, in whatever order, and a
// heartbeat that comes when the result has been heard elsewhere is not taken for the last word.
func TestAllNodesSilent(t *testing.T) {
	for _, order := range []string{"abc", "acb", "bac", "bca", "cab", "cba"} {
		for _, gap := range []time.Duration{0, time.Second} {
			t.Run(fmt.Sprintf("%s, %v apart", order, gap), func(t *testing.T) {
				withRunsOfB(t, 3, func(w *rig, s carillon.Session, runs []carillon.Run) {
					for _, d := range w.nodes {
						d.isolated.Store(true)
					}
					keepBeating(w, s, runs, 2)
					send(w.t, s, carillon.WorkRequest{Results: results(runs)})
					<-time.After(time.Second)
					go func() {
						for _, address := range order {
							w.nodes[string(address)].isolated.Store(false)
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

// TestSecondNodeIsLost: what a silent node was told before is then told to a third.
func TestSecondNodeIsLost(t *testing.T) {
	withRunsOfB(t, 3, func(w *rig, s carillon.Session, runs []carillon.Run) {
		w.nodes["b"].isolated.Store(true)
		w.nodes["a"].losesResults = true
		reportBy(w, s, results(runs), func() {
			<-time.After(1200 * time.Millisecond)
			w.kill("a")
		}, 1500*time.Millisecond)
	})
}

// TestOneOfAllSilentNodesAnswers: one that was suspected while there was nobody to turn to need not speak
// itself.
func TestOneOfAllSilentNodesAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRig(t, "a", "b", "c")
		s := open(t, w, 10)
		for i, address := range []string{"a", "b", "c"} {
			w.put(address, i, i+1)
		}
		runs := receiveRuns(t, s, 3)
		for _, d := range w.nodes {
			d.isolated.Store(true)
		}
		reportBy(w, s, results(runs), func() {
			<-time.After(2 * time.Second)
			w.nodes["a"].isolated.Store(false)
		}, 3500*time.Millisecond)
		shut(t, s)
	})
}

// TestNodeGoesSilentAfterAPing: it has spoken after it was told a result, but not of that.
func TestNodeGoesSilentAfterAPing(t *testing.T) {
	withRunsOfB(t, 3, func(w *rig, s carillon.Session, runs []carillon.Run) {
		w.nodes["b"].losesResults = true
		reportBy(w, s, results(runs), func() {
			<-time.After(700 * time.Millisecond) // it was asked for a word, and has given it
			w.nodes["b"].isolated.Store(true)
		}, 2500*time.Millisecond)
	})
}

// TestHeartbeatsOfTwoNodesAreSeparate while both wait to be sent.
func TestHeartbeatsOfTwoNodesAreSeparate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRig(t, "a", "b", "c")
		s := open(t, w, 8) // which are all used: none are on their way meanwhile
		w.put("b", 0, 6)
		ofB := receiveRuns(t, s, 6)
		w.put("a", 6, 8)
		ofA := receiveRuns(t, s, 2)
		beat := func(runs ...carillon.Run) { send(t, s, carillon.WorkRequest{Heartbeats: beats(runs)}) }
		w.nodes["b"].isolated.Store(true)
		beat(ofB...)
		<-time.After(600 * time.Millisecond) // b is suspected, a is not
		w.nodes["a"].isolated.Store(true)
		beat(ofA[0])         // fills the way to a
		beat(ofB[:5]...)     // waits for both
		beat(ofA[1], ofB[5]) // and so does this
		spoke := time.Now()
		w.nodes["a"].isolated.Store(false)
		<-time.After(50 * time.Millisecond)
		w.mu.Lock()
		for _, r := range slices.Concat(ofA, ofB) {
			if h := w.held[r.Token]; h == nil || h.alive.Before(spoke) {
				t.Errorf("a beat of %s got lost", r.Token)
			}
		}
		w.mu.Unlock()
		w.nodes["b"].isolated.Store(false)
		shut(t, s)
	})
}
