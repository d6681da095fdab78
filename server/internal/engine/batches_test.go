package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// mortal is a store that takes a number of writes and is then cut off. The last write is applied or not, and
// its answer is lost.
type mortal struct {
	store.Store
	mu     sync.Mutex
	left   int
	lands  bool // whether the write at which it is cut off is applied
	dead   bool
	writes int
	slow   time.Duration // of reading intents
	fails  time.Duration // after which a write fails when it is cut off
}

type mortalShard struct {
	store.Shard
	m *mortal
}

func (m *mortal) Shard(p int, term store.Term) (store.Shard, error) {
	s, err := m.Store.Shard(p, term)
	return mortalShard{s, m}, err
}

func (s mortalShard) MetaRecords(ctx context.Context, q store.MetaQuery) ([]store.MetaRecord, error) {
	if q.Kind == 'i' {
		time.Sleep(s.m.slow)
	}
	return s.Shard.MetaRecords(ctx, q)
}

func (s mortalShard) Apply(ctx context.Context, b *store.Batch) error {
	return s.m.do(func() error { return s.Shard.Apply(ctx, b) })
}

func (m *mortal) ApplyGroup(ctx context.Context, writes []store.Write) error {
	below := under(writes, func(s mortalShard) store.Shard { return s.Shard })
	return m.do(func() error { return m.Store.(store.Grouper).ApplyGroup(ctx, below) })
}

func (m *mortal) do(apply func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	lost := fmt.Errorf("%w: cut off", store.ErrUnknown)
	if m.dead {
		m.mu.Unlock()
		time.Sleep(m.fails)
		m.mu.Lock()
		return lost
	}
	m.writes++
	if m.left--; m.left > 0 {
		return apply()
	}
	m.dead = true
	if m.lands {
		return errors.Join(apply(), lost)
	}
	return lost
}

func (m *mortal) isDead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}

// wantNoSmall checks that no metadata record of a kind is left in any partition.
func wantNoSmall(t *testing.T, s store.Store, kinds ...byte) {
	t.Helper()
	for p := range s.Meta().Partitions {
		shard, err := s.Shard(p, store.Term{})
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range kinds {
			small, err := shard.MetaRecords(context.Background(), store.MetaQuery{Kind: kind, Limit: 100})
			if err != nil || len(small) > 0 {
				t.Errorf("partition %d: small records of kind %c left: %q %v", p, kind, small, err)
			}
		}
	}
}

// batchJobs are jobs of many partitions: the first one exists before, the last one is due at once.
func batchJobs() []carillon.Job {
	var jobs []carillon.Job
	for i := range 6 {
		jobs = append(jobs, carillon.Job{Name: fmt.Sprint("job", i), Due: carillon.In(time.Hour),
			Note: "batch", Target: carillon.WorkerQueue("idle")})
	}
	return append(jobs, carillon.Job{Name: "now", Note: "batch", Target: carillon.WorkerQueue("q")})
}

func noteOf(t *testing.T, n *node, name string) string {
	t.Helper()
	j, err := n.GetJob(context.Background(), carillon.Key{Namespace: "default", Name: name})
	if err != nil && !errors.Is(err, carillon.NotFound) {
		t.Fatal(err)
	}
	return j.Note
}

// crashes counts the writes of one life of a node, and whether it was cut off in it.
type crashes struct {
	disk  store.Store
	t     *testing.T
	lanes int
}

// live runs f on a node whose store is cut off at the given write.
func (c *crashes) live(left int, lands bool, slow time.Duration, f func(n *node)) (cutOff bool) {
	m := &mortal{Store: c.disk, left: math.MaxInt, lands: lands, slow: slow}
	n := startWith(c.t, engine.Config{Store: m, Lanes: c.lanes})
	m.mu.Lock()
	m.left = left // not counting those that begin its terms
	m.mu.Unlock()
	f(n)
	time.Sleep(5 * time.Second)
	cutOff = m.isDead()
	m.mu.Lock()
	m.dead = true
	m.mu.Unlock()
	if err := n.hub.Close(); err != nil {
		c.t.Error(err)
	}
	_ = n.Stop(context.Background()) // it cannot write what it is cut off from
	return cutOff
}

// TestABatchIsStoredWholeOrNotAtAll: crashes a node at each write of a batch put in turn, with and without
// the write applied, and its successor at each write of the roll-forward.
func TestABatchIsStoredWholeOrNotAtAll(t *testing.T) {
	all := []int{1, 2, 5}
	if testing.Short() {
		all = all[1:2]
	}
	for _, lanes := range all {
		for _, lands := range []bool{false, true} {
			crashEverywhere(t, lanes, lands)
		}
	}
}

func crashEverywhere(t *testing.T, lanes int, lands bool) {
	for first := 2; ; first++ { // the first write is that of the job that exists before
		beyond := false
		for second := 1; !beyond; second++ {
			if !batchWithCrashes(t, lanes, lands, first, second, &beyond) {
				break // no crash in the second life
			}
		}
		if beyond {
			return
		}
		if first > 60 {
			t.Fatal("a batch takes more than 60 writes")
		}
	}
}

// batchWithCrashes returns whether the second life was cut off; beyond is set if the first was not.
func batchWithCrashes(t *testing.T, lanes int, lands bool, first, second int, beyond *bool) (again bool) {
	t.Run(fmt.Sprintf("%d/%v/%d/%d", lanes, lands, first, second), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := &crashes{memory.New(memory.Options{Partitions: 5}), t, lanes}
			var stored error
			*beyond = !c.live(first, lands, 0, func(n *node) {
				old := batchJobs()[0]
				old.Note = "old"
				if _, err := n.PutJob(context.Background(), old); err != nil {
					t.Fatal(err)
				}
				n.consume("q", 10, success)
				time.Sleep(time.Second)
				ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
				defer cancel()
				_, stored = n.PutJobs(ctx, batchJobs())
			})
			ran := c.hasRun("now")
			var e *carillon.Error
			if stored != nil && (!errors.As(stored, &e) || !e.Unknown) {
				t.Fatalf("the error of a batch that may be stored: %v", stored)
			}
			again = c.live(second, lands, time.Second, func(n *node) {
				other := batchJobs()[1]
				other.Note = "other"
				ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
				defer cancel()
				_, err := n.PutJob(ctx, other)
				w := n.consume("q", 10, success)
				time.Sleep(10 * time.Second)
				if ran && len(w.got()) > 0 {
					t.Errorf("a run that had ended was brought back: %+v", w.got())
				}
				if err == nil && !n.hasNote("job1", "other") {
					t.Error("a later put was overwritten")
				}
			})
			n := start(t, c.disk)
			n.consume("q", 10, success)
			time.Sleep(5 * time.Second)
			c.wantAllOrNone(n, stored == nil)
			time.Sleep(5 * time.Minute) // for the markers
			n.stop()
			wantNoSmall(t, c.disk, 'i', 'a')
		})
	})
	return again && !t.Failed()
}

func (n *node) hasNote(name, note string) bool {
	j, err := n.GetJob(context.Background(), carillon.Key{Namespace: "default", Name: name})
	return err != nil || j.Note == note // an error: the node is cut off
}

func (c *crashes) hasRun(name string) bool {
	key := carillon.Key{Namespace: "default", Name: name}
	shard, err := c.disk.Shard(store.PartitionOf(key, c.disk.Meta().Partitions), store.Term{})
	if err != nil {
		c.t.Fatal(err)
	}
	runs, err := shard.Runs(context.Background(), store.RunQuery{Job: &key, Limit: 10})
	if err != nil {
		c.t.Fatal(err)
	}
	return len(runs) > 0
}

func (c *crashes) wantAllOrNone(n *node, all bool) {
	here := 0
	for i, j := range batchJobs() {
		note := noteOf(c.t, n, j.Name)
		switch {
		case j.Name == "now" && note == "" && c.hasRun("now"), note == "batch":
			here++
		case i == 1 && note == "other": // put since
			here++
		case i == 1:
			if here > 0 {
				c.t.Errorf("%s has the note %q", j.Name, note)
			}
		}
	}
	others := 0
	if noteOf(c.t, n, "job1") == "other" {
		others = 1
	}
	if here != 7 && (all || here > others) {
		c.t.Errorf("%d of 7 jobs are stored; acknowledged: %v", here, all)
	}
}

// TestABatchSurvivesItsCallerAndARefusingStore: the store takes the intent and then nothing for a while.
func TestABatchSurvivesItsCallerAndARefusingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{Store: memory.New(memory.Options{Partitions: 5})}
		n := startWith(t, engine.Config{Store: f, Lanes: 5})
		writes := 0
		var mu sync.Mutex
		f.fail(func(apply func() error) error {
			mu.Lock()
			defer mu.Unlock()
			if writes++; writes == 1 {
				return apply()
			}
			return errors.New("disk full")
		})
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		_, err := n.PutJobs(ctx, batchJobs()[:6])
		var e *carillon.Error
		if !errors.As(err, &e) || !e.Unknown || e.Kind != carillon.DeadlineExceeded {
			t.Fatalf("got %v", err)
		}
		time.Sleep(time.Minute)
		f.fail(nil)
		time.Sleep(5 * time.Second)
		for _, j := range batchJobs()[:6] {
			if noteOf(t, n, j.Name) != "batch" {
				t.Errorf("%s is not stored", j.Name)
			}
		}
		time.Sleep(5 * time.Minute) // for the markers
		n.stop()
		wantNoSmall(t, f.Store, 'i', 'a')
	})
}

// TestABatchFoundWrittenAnswersAsItWouldHave: the store takes the share of a partition, and its
// answer is lost. When the partition is owned again and the batch is answered, the first run has begun and a
// job has ended: the answer is what it would have been. If the store has not taken the share, the answer is
// that of the try that was taken.
func TestABatchFoundWrittenAnswersAsItWouldHave(t *testing.T) {
	for name, land := range map[string]bool{"written": true, "not written": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &faulty{Store: memory.New(memory.Options{Partitions: 5})}
				n := startWith(t, engine.Config{Store: f, Lanes: 5})
				n.consume("q", 10, success)
				f.fail(loseShares(land))
				jobs := batchJobs()
				for i := range jobs {
					jobs[i].Target = carillon.WorkerQueue("q")
				}
				jobs[0] = carillon.Job{Name: jobs[0].Name, Schedule: "@every 100ms", Target: jobs[0].Target}
				at := time.Now()
				puts, err := n.PutJobs(context.Background(), jobs)
				if err != nil || len(puts) != len(jobs) {
					t.Fatalf("%d answers, %v", len(puts), err)
				}
				if took := time.Since(at); took < 500*time.Millisecond {
					t.Fatalf("answered after %v: no partition was claimed again", took)
				}
				for i, put := range puts {
					next := at.Add(time.Hour)
					switch i {
					case 0:
						next = at.Add(100 * time.Millisecond)
					case len(jobs) - 1:
						next = at
					}
					if !put.Created || !put.Changed || put.Job.Status == nil || !put.Job.Status.NextRun.Equal(next) {
						t.Errorf("%s: created %v, changed %v, %+v; want the next run at %v", put.Job.Name,
							put.Created, put.Changed, put.Job.Status, next)
					}
				}
				time.Sleep(5 * time.Minute)
				n.stop()
				wantNoSmall(t, f.Store, 'i', 'a')
			})
		})
	}
}

// loseShares lets the intent through, loses what comes right after it, applied or not, and is gone half a
// second later.
func loseShares(land bool) func(apply func() error) error {
	var mu sync.Mutex
	var since time.Time
	return func(apply func() error) error {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case since.IsZero():
			since = time.Now()
			return apply()
		case time.Since(since) >= 500*time.Millisecond:
			return apply()
		case land:
			return errors.Join(apply(), fmt.Errorf("%w: lost", store.ErrUnknown))
		}
		return fmt.Errorf("%w: lost", store.ErrUnknown)
	}
}

// TestABatchWhoseIntentIsRefusedIsNotStored: and the caller is told so.
func TestABatchWhoseIntentIsRefusedIsNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{Store: memory.New(memory.Options{Partitions: 5})}
		n := startWith(t, engine.Config{Store: f, Lanes: 5})
		f.fail(func(func() error) error { return errors.New("disk full") })
		_, err := n.PutJobs(context.Background(), batchJobs())
		var e *carillon.Error
		if !errors.As(err, &e) || e.Unknown || e.Kind != carillon.Unavailable {
			t.Fatalf("got %v", err)
		}
		f.fail(nil)
		time.Sleep(10 * time.Second)
		if page, err := n.ListJobs(context.Background(), carillon.JobQuery{}); err != nil || len(page.Jobs) > 0 {
			t.Fatalf("stored: %+v %v", page, err)
		}
		n.stop()
	})
}

// TestABatchIsCheckedBeforeAnythingIsStored: one job of many could never run.
func TestABatchIsCheckedBeforeAnythingIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New(memory.Options{Partitions: 5}))
		for name, bad := range map[string]carillon.Job{
			"jobs[6].ttl": {Name: "bad", Due: carillon.In(time.Hour), TTL: carillon.At(time.Now()),
				Target: carillon.WorkerQueue("q")},
			"jobs[6].schedule": {Name: "bad", Schedule: "R1/1999-01-01T00:00:00Z/PT1M",
				Target: carillon.WorkerQueue("q")},
			"jobs[6].target": {Name: "bad"},
		} {
			_, err := n.PutJobs(context.Background(), append(batchJobs()[:6], bad))
			var e *carillon.Error
			if !errors.As(err, &e) || e.Field != name || e.Kind != carillon.InvalidArgument {
				t.Errorf("%s: got %v", name, err)
			}
		}
		if page, err := n.ListJobs(context.Background(), carillon.JobQuery{}); err != nil || len(page.Jobs) > 0 {
			t.Fatalf("stored: %+v %v", page, err)
		}
		n.stop()
	})
}

// TestABatchMayHoldAJobThatCannotBeginAnew: one of its jobs is expired while its last
// run goes on.
func TestABatchMayHoldAJobThatCannotBeginAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New(memory.Options{Partitions: 5}))
		c := n.consume("q", 10, func(r carillon.Run) *carillon.Result {
			if r.Job == "old" {
				return nil // it takes its time
			}
			return &carillon.Result{Outcome: carillon.OutcomeSuccess}
		})
		old := carillon.Job{Name: "old", Schedule: "@every 10s",
			TTL: carillon.At(time.Now().Add(15 * time.Second)), Target: carillon.WorkerQueue("q")}
		if _, err := n.PutJob(context.Background(), old); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		jobs := batchJobs()[:7]
		jobs[6] = old
		if _, err := n.PutJobs(context.Background(), jobs); err != nil {
			t.Fatalf("unchanged: %v", err)
		}
		jobs[6].Labels = map[string]string{"a": "b"}
		if puts, err := n.PutJobs(context.Background(), jobs); err != nil || puts[6].Job.Labels["a"] != "b" {
			t.Fatalf("with a label: %+v %v", puts, err)
		}
		jobs[6].Schedule = "@every 11s"
		if _, err := n.PutJobs(context.Background(), jobs); carillon.KindOf(err) != carillon.InvalidArgument {
			t.Fatalf("with times that are over: %v", err)
		}
		n.stop()
		<-c.done
	})
}
