package multisessiontest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
)

// TestRunsOfLostNodesAreDone: runs of nodes that die are done through others, and none is lost.
func TestRunsOfLostNodesAreDone(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				chance := rand.New(rand.NewPCG(seed, 7))
				w := newRig(t, "a", "b", "c")
				b := &sleeper{took: func() time.Duration { return time.Duration(1+rand.IntN(200)) * time.Millisecond }}
				stop := runWorker(t, w, 1+int(seed%5)*3, b.handle)
				const each = 15
				w.mu.Lock()
				w.waiting++ // more are to come
				w.mu.Unlock()
				for i := range 30 {
					var living []string
					for _, d := range w.living() {
						living = append(living, d.address)
					}
					w.put(living[chance.IntN(len(living))], i*each, (i+1)*each)
					<-time.After(time.Duration(chance.IntN(2000)) * time.Millisecond)
					switch node := living[chance.IntN(len(living))]; chance.IntN(4) {
					case 0:
						if len(living) > 1 {
							w.kill(node)
						}
					case 1:
						for _, a := range []string{"a", "b", "c", "d"} {
							if w.nodes[a] == nil {
								w.start(a)
								break
							}
						}
					case 2:
						w.kill(node)
						w.start(node)
					}
				}
				w.mu.Lock()
				if w.waiting--; w.waiting == 0 {
					close(w.all)
				}
				w.mu.Unlock()
				<-w.all
				stop()
				if len(w.done) != 30*each {
					t.Errorf("%d runs were done", len(w.done))
				}
			})
		})
	}
}

// TestDrainOfOneNodeIsHidden: while another node is there the worker keeps its session, and what it has from
// the one that leaves.
func TestDrainOfOneNodeIsHidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRig(t, "a", "b")
		s := open(t, w, 4)
		w.put("a", 0, 2)
		w.put("b", 2, 4)
		runs := receiveRuns(t, s, 4)
		leaving := w.nodes["a"].hub
		if err := leaving.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(leaving.Workers()) == 0 {
			t.Error("the worker left although its runs go on")
		}
		send(t, s, carillon.WorkRequest{Results: results(runs), Credits: []carillon.Credit{{Queue: "q", N: 4}}})
		for acks := 0; acks < 4; {
			r, err := s.Receive(t.Context())
			if err != nil || r.Drain {
				t.Fatalf("%+v, %v", r, err)
			}
			acks += len(r.Acks)
		}
		synctest.Wait()
		if len(leaving.Workers()) != 0 {
			t.Error("the worker is still there")
		}
		w.kill("a")
		w.put("b", 4, 8)
		receiveRuns(t, s, 4)
		if err := w.nodes["b"].hub.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r, err := s.Receive(t.Context()); err != nil || !r.Drain {
			t.Errorf("the last one drains: %+v, %v", r, err)
		}
		shut(t, s)
	})
}

// TestDrainIsHiddenWhileAnotherNodeIsLost: what is said again of the one that is lost says nothing of the
// runs of the one that drains.
func TestDrainIsHiddenWhileAnotherNodeIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRig(t, "a", "b", "c")
		s := open(t, w, 4)
		w.put("a", 0, 1)
		w.put("b", 1, 3)
		runs := receiveRuns(t, s, 3)
		leaving := w.nodes["a"].hub
		if err := leaving.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		ofB := slices.DeleteFunc(slices.Clone(runs), func(r carillon.Run) bool { return r.ID == "run 00000" })
		w.nodes["b"].losesResults = true
		send(t, s, carillon.WorkRequest{Results: results(ofB)})
		w.kill("b")
		acks(t, s, 2)
		synctest.Wait()
		if len(leaving.Workers()) == 0 {
			t.Error("the worker left although its run goes on")
		}
		shut(t, s)
	})
}

// TestResultOfALostNodeIsSentAgain: the node dies before it confirms; another hears of it.
func TestResultOfALostNodeIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRig(t, "a", "b")
		s := open(t, w, 1)
		w.put("b", 0, 1)
		runs := receiveRuns(t, s, 1)
		w.nodes["b"].losesResults = true
		send(t, s, carillon.WorkRequest{Results: results(runs)})
		w.kill("b")
		for {
			r, err := s.Receive(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Acks) == 1 {
				break
			}
		}
		if w.done[runs[0].ID] != 1 {
			t.Error("it is not done")
		}
		shut(t, s)
	})
}

// TestNodeMissingInAllListsIsLost without a word is given up once the others miss it: its credits are used
// elsewhere, and what was said to it is said to another.
func TestNodeMissingInAllListsIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRig(t, "a", "b", "c")
		s := open(t, w, 10)
		w.put("b", 0, 3)
		runs := receiveRuns(t, s, 3)
		w.nodes["b"].isolated.Store(true)
		send(t, s, carillon.WorkRequest{Results: results(runs), Credits: []carillon.Credit{{Queue: "q", N: 3}}})
		synctest.Wait()
		end := w.vanish("b")
		w.put("c", 3, 13)
		if got := receiveRuns(t, s, 10); len(got) != 10 {
			t.Errorf("%d runs", len(got))
		}
		synctest.Wait()
		for _, r := range runs {
			if w.done[r.ID] != 1 {
				t.Errorf("%s was done %d times", r.ID, w.done[r.ID])
			}
		}
		end()
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

// TestHeirOfALostNodeKeepsItsRuns: when a better one comes, what is on its way to the first is not answered
// once more.
func TestHeirOfALostNodeKeepsItsRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRig(t, "a", "b", "c")
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
		synctest.Wait() // the lists are those of b: none that c has sent before comes later
		awaitNodes(t, s, 2)
		w.kill("c")
		synctest.Wait()
		awaitNodes(t, s, 1)
		w.start("c") // it is connected after a moment
		awaitNodes(t, s, 2)
		b.isolated.Store(true)
		send(t, s, carillon.WorkRequest{Heartbeats: beats(runs)})
		<-time.After(time.Second)
		send(t, s, carillon.WorkRequest{Results: results(runs)})
		acks(t, s, 1)
		b.isolated.Store(false)
		<-time.After(time.Second)
		nothingMore(w, s, "c")
		shut(t, s)
	})
}
