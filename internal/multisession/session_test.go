package multisession_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/worker"
)

// crew runs a worker of the SDK until stop is called.
func crew(t *testing.T, w carillon.Work, concurrency int, handle func(ctx context.Context, run carillon.Run) error) (stop func()) {
	wk := worker.New(meter{w, t}, worker.Options{Concurrency: concurrency, ID: "w", Grace: time.Minute})
	worker.Handle(wk, "q", func(ctx context.Context, run carillon.Run, _ carillon.Data) error { return handle(ctx, run) })
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan error, 1)
	go func() { left <- wk.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-left; err != nil {
			t.Errorf("worker: %v", err)
		}
	}
}

// busy counts how many handlers go on.
type busy struct {
	now, most atomic.Int32
	took      func() time.Duration
}

func (b *busy) handle(context.Context, carillon.Run) error {
	n := b.now.Add(1)
	for most := b.most.Load(); n > most && !b.most.CompareAndSwap(most, n); most = b.most.Load() {
	}
	<-time.After(b.took())
	b.now.Add(-1)
	return nil
}

// TestAWorkerIsServedByAllNodes: with few credits and with many, whichever nodes have runs.
func TestAWorkerIsServedByAllNodes(t *testing.T) {
	for _, concurrency := range []int{1, 2, 3, 50} {
		t.Run(fmt.Sprint(concurrency), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "a", "b", "c")
				b := &busy{took: func() time.Duration { return 10 * time.Millisecond }}
				w.put("a", 0, 100)
				w.put("b", 100, 200)
				w.put("c", 200, 210)
				began := time.Now()
				stop := crew(t, w, concurrency, b.handle)
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

// TestNodesComeAndGo: runs of nodes that die are done through others, and none is lost.
func TestNodesComeAndGo(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				chance := rand.New(rand.NewPCG(seed, 7))
				w := newWorld(t, "a", "b", "c")
				b := &busy{took: func() time.Duration { return time.Duration(1+rand.IntN(200)) * time.Millisecond }}
				stop := crew(t, w, 1+int(seed%5)*3, b.handle)
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

// TestADrainOfOneIsHidden: while another node is there the worker keeps its session, and what it has from the
// one that leaves.
func TestADrainOfOneIsHidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b")
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

// TestADrainIsHiddenWhileAnotherIsLost: what is said again of the one that is lost says nothing of the runs
// of the one that drains.
func TestADrainIsHiddenWhileAnotherIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b", "c")
		s := open(t, w, 4)
		w.put("a", 0, 1)
		w.put("b", 1, 3)
		runs := receiveRuns(t, s, 3)
		leaving := w.nodes["a"].hub
		if err := leaving.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		ofB := slices.DeleteFunc(slices.Clone(runs), func(r carillon.Run) bool { return r.ID == "run 00000" })
		w.nodes["b"].deaf = true
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

// TestCreditsAreGivenBack: a worker can take back what is unused, wherever it is.
func TestCreditsAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b", "c")
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

// TestAloneCreditsAreGivenBack: the same through a single node.
func TestAloneCreditsAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		s := open(t, w, 10)
		w.put("a", 0, 3)
		receiveRuns(t, s, 3)
		send(t, s, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: -2}, {Queue: "q", N: -100}, {Queue: "q", N: -1}}})
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

// TestAGoodbyeIsSaidToAll: what the worker has is free at once on every node.
func TestAGoodbyeIsSaidToAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b")
		s := open(t, w, 4)
		w.put("a", 0, 2)
		w.put("b", 2, 4)
		receiveRuns(t, s, 4)
		send(t, s, carillon.WorkRequest{Goodbye: true})
		synctest.Wait()
		if len(w.held) != 0 {
			t.Errorf("%d runs are still held", len(w.held))
		}
		if err := s.Send(t.Context(), carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: 1}}}); !errors.Is(err, carillon.FailedPrecondition) {
			t.Errorf("credits after goodbye: %v", err)
		}
		shut(t, s)
	})
}

// TestAResultThatANodeTookWithItIsSaidAgain: the node dies before it confirms; another hears of it.
func TestAResultThatANodeTookWithItIsSaidAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b")
		s := open(t, w, 1)
		w.put("b", 0, 1)
		runs := receiveRuns(t, s, 1)
		w.nodes["b"].deaf = true
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

// TestANodeThatIsCutOff without a word is given up once the others miss it: its credits are used elsewhere,
// and what was said to it is said to another.
func TestANodeThatIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b", "c")
		s := open(t, w, 10)
		w.put("b", 0, 3)
		runs := receiveRuns(t, s, 3)
		w.nodes["b"].cut.Store(true)
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

// TestWrongWordsAreRefused: by the session itself, whichever node would hear of them.
func TestWrongWordsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b")
		s := open(t, w, 1)
		err := s.Send(t.Context(), carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "other", N: 1}}})
		if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.InvalidArgument || e.Field != "credits.queue" {
			t.Errorf("%v", err)
		}
		shut(t, s)
		if err := s.Send(t.Context(), carillon.WorkRequest{Goodbye: true}); !errors.Is(err, carillon.Canceled) {
			t.Errorf("after its end: %v", err)
		}
	})
}

// TestTheEndOfAContextEndsAll: no session and no goroutine is left.
func TestTheEndOfAContextEndsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b")
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

// open is a session with all nodes and n credits.
func open(t *testing.T, w *world, n int) carillon.Session {
	t.Helper()
	s, err := w.Connect(t.Context(), carillon.Hello{Queues: []string{"q"}, WorkerID: "w"})
	if err != nil {
		t.Fatal(err)
	}
	if len(w.living()) > 1 {
		if r, err := s.Receive(t.Context()); err != nil || len(r.Nodes) != len(w.living()) {
			t.Fatalf("nodes: %+v, %v", r, err)
		}
	}
	synctest.Wait()
	send(t, s, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: n}}})
	return s
}

// shut closes a session and receives what is left.
func shut(t *testing.T, s carillon.Session) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for {
		if _, err := s.Receive(context.Background()); err != nil {
			return
		}
	}
}

func send(t *testing.T, s carillon.Session, r carillon.WorkRequest) {
	t.Helper()
	if err := s.Send(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// receiveRuns is the next n runs.
func receiveRuns(t *testing.T, s carillon.Session, n int) []carillon.Run {
	t.Helper()
	var runs []carillon.Run
	for len(runs) < n {
		r, err := s.Receive(t.Context())
		if err != nil {
			t.Fatalf("after %d of %d runs: %v", len(runs), n, err)
		}
		runs = append(runs, r.Runs...)
	}
	return runs
}

func results(runs []carillon.Run) []carillon.Result {
	var rs []carillon.Result
	for i := range runs {
		rs = append(rs, carillon.Result{Token: runs[i].Token, RunID: runs[i].ID, Outcome: carillon.OutcomeSuccess})
	}
	return rs
}
