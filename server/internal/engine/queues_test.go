package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// pauseQueue pauses the worker queue "q" and has the nodes read it, as the API does.
func pauseQueue(t *testing.T, at *node, told ...*node) carillon.QueuePause {
	t.Helper()
	pause, err := at.PauseQueue(context.Background(), carillon.QueueKey{Name: "q"}, "note")
	if err != nil {
		t.Fatal(err)
	}
	reload(t, told...)
	return pause
}

func resumeQueue(t *testing.T, at *node, told ...*node) {
	t.Helper()
	if _, err := at.ResumeQueue(context.Background(), carillon.QueueKey{Name: "q"}); err != nil {
		t.Fatal(err)
	}
	reload(t, told...)
}

func reload(t *testing.T, told ...*node) {
	t.Helper()
	for _, n := range told {
		if err := n.ReloadQueues(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// putMany puts one-shots that are due at once.
func putMany(t *testing.T, n *node, queue string, from, to int) {
	t.Helper()
	var jobs []carillon.Job
	for i := from; i < to; i++ {
		jobs = append(jobs, carillon.Job{Name: fmt.Sprintf("%s/%d", queue, i), Target: carillon.WorkerQueue(queue)})
	}
	if _, err := n.PutJobs(context.Background(), jobs); err != nil {
		t.Fatal(err)
	}
}

// TestAPausedQueueLosesNothing: nothing is handed out while it is paused, of another queue everything is, and
// after the pause each run has one attempt, its first.
func TestAPausedQueueLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New(memory.Options{Partitions: 8}))
		c, other := n.consume("q", 10, success), n.consume("other", 10, success)
		putMany(t, n, "q", 0, 100)
		time.Sleep(time.Second)
		since := time.Now()
		if p := pauseQueue(t, n, n); !p.Since.Equal(since) || p.Note != "note" {
			t.Errorf("%+v", p)
		}
		before := len(c.got())
		putMany(t, n, "q", 100, 1000)
		putMany(t, n, "other", 0, 100)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(c.got()) != before || len(other.got()) != 100 {
			t.Fatalf("%d more runs of the paused queue, %d of another one", len(c.got())-before, len(other.got()))
		}
		q := delivery.Queue{Namespace: "default", Kind: "worker", Address: "q"}
		if b := n.Backlog()[q]; b.Len() != 900 || b.Staged != 900 {
			t.Errorf("what waits: %+v", b)
		}
		resumeQueue(t, n, n)
		time.Sleep(time.Millisecond) // no poll
		synctest.Wait()
		seen := map[string]bool{}
		for _, r := range c.got() {
			if seen[r.Job] || r.Attempt != 1 {
				t.Fatalf("%s has attempt %d, or two", r.Job, r.Attempt)
			}
			seen[r.Job] = true
		}
		if len(seen) != 1000 {
			t.Errorf("%d of 1000 ran", len(seen))
		}
		n.stop()
	})
}

// TestAttemptsOfAPausedQueueGoOn: their heartbeats and results are taken; a retry waits for the end of the
// pause.
func TestAttemptsOfAPausedQueueGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		n := start(t, memory.New(memory.Options{Partitions: 1}))
		c := n.consume("q", 3, silent)
		for i := range 2 {
			if _, err := n.PutJob(ctx, carillon.Job{Name: fmt.Sprint(i), Target: carillon.WorkerQueue("q"),
				Lease: 10 * time.Second, FailurePolicy: retries()}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		runs := c.got()
		pauseQueue(t, n, n)
		for range 5 {
			time.Sleep(8 * time.Second)
			var beats []carillon.Heartbeat
			for _, r := range runs {
				beats = append(beats, carillon.Heartbeat{Token: r.Token})
			}
			if err := c.Send(ctx, carillon.WorkRequest{Heartbeats: beats}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if err := c.Send(ctx, carillon.WorkRequest{Results: []carillon.Result{done(runs[0]),
			{Token: runs[1].Token, RunID: runs[1].ID, Outcome: carillon.OutcomeFailure}}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if h := c.heard(); len(c.got()) != 2 || h.acks != 2 || h.stale > 0 {
			t.Fatalf("%d attempts, told %+v", len(c.got()), h)
		}
		resumeQueue(t, n, n)
		synctest.Wait()
		if got := c.got(); len(got) != 3 || got[2].ID != runs[1].ID || got[2].Attempt != 2 {
			t.Errorf("after the pause: %+v", got[2:])
		}
		n.stop()
	})
}

// TestPausesAreReadBeforeAnythingIsHandedOut: by a node that starts, and by one that takes partitions
// over and that nobody has told.
func TestPausesAreReadBeforeAnythingIsHandedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{Partitions: 8})
		n := start(t, s)
		pauseQueue(t, n) // it is killed before anybody is told
		putMany(t, n, "q", 0, 100)
		n.stop()
		f := startFleet(t, s, 2, nil)
		consumers := []*consumer{f.nodes[0].consume("q", 10, success), f.nodes[1].consume("q", 10, success)}
		quiet := func(when string) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			if len(consumers[0].got())+len(consumers[1].got()) > 0 {
				t.Fatalf("%s: something is handed out", when)
			}
		}
		f.deal(func(int) int { return 0 })
		f.settled()
		quiet("at the start")
		f.deal(func(int) int { return 1 })
		f.settled()
		quiet("after a move")
		resumeQueue(t, f.nodes[0], f.nodes[1])
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if len(consumers[1].got()) != 100 {
			t.Errorf("%d of 100 ran", len(consumers[1].got()))
		}
		f.stop()
	})
}

// TestAPauseThatANodeWasNotToldOf reaches it within 5 s, and so does its end.
func TestAPauseThatANodeWasNotToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{Partitions: 8})
		f := startFleet(t, s, 2, nil)
		f.deal(func(p int) int { return min(p, 1) }) // the first has which are paused, the other has the rest
		f.settled()
		c := f.nodes[1].consume("q", 1000, success)
		pauseQueue(t, f.nodes[1], f.nodes[0])
		time.Sleep(5 * time.Second)
		synctest.Wait()
		var jobs []carillon.Job
		for i := 0; len(jobs) < 50; i++ {
			j := carillon.Job{Namespace: "default", Name: fmt.Sprint(i), Target: carillon.WorkerQueue("q")}
			if store.PartitionOf(j.Key(), 8) != 0 {
				jobs = append(jobs, j)
			}
		}
		if _, err := f.nodes[1].PutJobs(t.Context(), jobs); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if n := len(c.got()); n > 0 {
			t.Errorf("%d runs are handed out", n)
		}
		resumeQueue(t, f.nodes[1], f.nodes[0])
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if n := len(c.got()); n != 50 {
			t.Errorf("%d of 50 ran", n)
		}
		f.stop()
	})
}

// TestNothingIsHandedOutAfterAPauseOfAQueue: runs flow through two nodes, which move their partitions, and a
// queue is paused and resumed all the time. Between the answers nothing comes.
func TestNothingIsHandedOutAfterAPauseOfAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		f := startFleet(t, memory.New(memory.Options{Partitions: 8}), 2, nil)
		f.deal(func(p int) int { return p % 2 })
		f.settled()
		var mu sync.Mutex
		paused, late, ran := false, 0, map[string]int{}
		for _, n := range f.nodes {
			n.consume("q", 20, func(r carillon.Run) *carillon.Result {
				mu.Lock()
				defer mu.Unlock()
				if ran[r.Job]++; paused {
					late++
				}
				return success(r)
			})
		}
		set := func(p bool) {
			mu.Lock()
			defer mu.Unlock()
			paused = p
		}
		put := 0
		for i := range 40 {
			for range 50 {
				job := carillon.Job{Name: fmt.Sprint(put), Target: carillon.WorkerQueue("q"), Due: carillon.In(time.Duration(put%7) * 30 * time.Millisecond)}
				if _, err := route(ctx, f, func(n *node) (carillon.PutResult, error) { return n.PutJob(ctx, job) }); err != nil {
					t.Fatal(err)
				}
				put++
			}
			time.Sleep(10 * time.Millisecond)
			pauseQueue(t, f.nodes[i%2], f.nodes...)
			synctest.Wait() // what was received before the answer has come to its handler
			set(true)
			if i%4 == 3 {
				f.deal(func(p int) int { return (p + i/4) % 2 })
				f.settled()
			}
			time.Sleep(time.Duration(i%3) * time.Second)
			synctest.Wait()
			set(false)
			resumeQueue(t, f.nodes[(i+1)%2], f.nodes...)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if late > 0 || len(ran) != put {
			t.Errorf("%d runs came during a pause; %d of %d ran", late, len(ran), put)
		}
		for job, n := range ran {
			if n != 1 {
				t.Errorf("%s ran %d times", job, n)
			}
		}
		f.stop()
	})
}

// TestWrongQueuesAreRefused, with the field that is wrong.
func TestWrongQueuesAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New(memory.Options{Partitions: 2}))
		for field, key := range map[string]carillon.QueueKey{"namespace": {Namespace: "a/b", Name: "q"}, "kind": {Kind: "fax",
			Name: "q"}, "name": {Kind: "dapr", Name: "shop"}} {
			_, pausing := n.PauseQueue(t.Context(), key, "")
			_, purging := n.PurgeQueue(t.Context(), key, carillon.PurgeOptions{})
			_, resuming := n.ResumeQueue(t.Context(), key)
			for what, err := range map[string]error{"pause": pausing, "purge": purging, "resume": resuming} {
				if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.InvalidArgument || e.Field != field {
					t.Errorf("%s of %+v: %v", what, key, err)
				}
			}
		}
		_, err := n.PauseQueue(t.Context(), carillon.QueueKey{Name: "q"}, string(make([]byte, 2000)))
		if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Field != "note" {
			t.Errorf("a long note: %v", err)
		}
		if _, err := n.Ask(t.Context(), 1, message.PauseQueue{Paused: true}); !errors.Is(err, carillon.Internal) {
			t.Errorf("another partition: %v", err)
		}
		n.stop()
	})
}

// lostQueues is a store that has lost which queues are paused.
type lostQueues struct{ store.Store }

type lostShard struct{ store.Shard }

func (l lostQueues) Shard(p int, term store.Term) (store.Shard, error) {
	shard, err := l.Store.Shard(p, term)
	return lostShard{shard}, err
}

func (l lostShard) MetaRecords(ctx context.Context, q store.MetaQuery) ([]store.MetaRecord, error) {
	if q.Kind == store.KindQueue {
		return nil, store.ErrDamaged
	}
	return l.Shard.MetaRecords(ctx, q)
}

// TestALossOfWhichQueuesArePaused stops the partition that keeps them, and no other.
func TestALossOfWhichQueuesArePaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, lostQueues{memory.New(memory.Options{Partitions: 2})})
		c := n.consume("q", 100, success)
		ran := 0
		for i := range 20 {
			key := carillon.Key{Namespace: "default", Name: fmt.Sprint(i)}
			_, err := n.PutJob(t.Context(), carillon.Job{Name: key.Name, Target: carillon.WorkerQueue("q")})
			if home := store.PartitionOf(key, 2) == 0; (err != nil) != home {
				t.Errorf("a job of partition 0: %v; %v", home, err)
			} else if !home {
				ran++
			}
		}
		synctest.Wait()
		if got := len(c.got()); got != ran {
			t.Errorf("%d of %d ran", got, ran)
		}
		n.stop()
	})
}
