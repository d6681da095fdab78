package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// stormy is a store that sometimes refuses a write, or loses its answer, until it is cut off.
type stormy struct {
	store.Store
	mu   sync.Mutex
	rng  *rand.Rand
	bad  float64
	dead bool
}

type stormyShard struct {
	store.Shard
	s *stormy
}

func (s *stormy) Shard(p int, term store.Term) (store.Shard, error) {
	sh, err := s.Store.Shard(p, term)
	return stormyShard{sh, s}, err
}

func (s stormyShard) Apply(ctx context.Context, b *store.Batch) error {
	return s.s.do(func() error { return s.Shard.Apply(ctx, b) })
}

func (s *stormy) ApplyGroup(ctx context.Context, writes []store.Write) error {
	below := under(writes, func(s stormyShard) store.Shard { return s.Shard })
	return s.do(func() error { return s.Store.(store.Grouper).ApplyGroup(ctx, below) })
}

func (s *stormy) do(apply func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	lost := fmt.Errorf("%w: lost", store.ErrUnknown)
	refuse, lose := s.rng.Float64() < s.bad, s.rng.Float64() < s.bad
	switch {
	case s.dead:
		return lost
	case refuse:
		return errors.New("refused")
	case lose:
		return errors.Join(apply(), lost)
	}
	return apply()
}

// ledger records when each job's runs were first delivered, over all lives of a node.
type ledger struct {
	mu    sync.Mutex
	first map[string]time.Time // by job
	runs  map[string]map[string]bool
}

func (l *ledger) take(r carillon.Run) *carillon.Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs[r.Job] == nil {
		l.runs[r.Job], l.first[r.Job] = map[string]bool{}, time.Now()
	}
	l.runs[r.Job][r.ID] = true
	return success(r)
}

// graph returns a chain, a diamond and a recurring job that follows another.
func graph() []carillon.Job {
	job := func(name string, after ...string) carillon.Job {
		return carillon.Job{Name: name, DependsOn: after, Target: carillon.WorkerQueue("q"),
			Lease: 5 * time.Second, Timeout: 10 * time.Second}
	}
	source, sink := job("source"), job("sink", "source")
	source.Schedule, source.Repeats, sink.Schedule = "@every 5s", 4, "@every 1s"
	return []carillon.Job{
		job("c3", "c2"), job("c2", "c1"), job("c1"),
		job("bottom", "left", "right"), job("left", "top"), job("right", "top"), job("top"),
		source, sink,
	}
}

// TestAGraphOfJobsRunsInOrderAndOnce: through kills at random moments, refused writes and lost answers.
func TestAGraphOfJobsRunsInOrderAndOnce(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { graphUnderFaults(t, seed) })
		})
	}
}

func graphUnderFaults(t *testing.T, seed uint64) {
	ctx := context.Background()
	disk := memory.New(memory.Options{Partitions: 5})
	rng := rand.New(rand.NewPCG(seed, 1))
	lanes := []int{1, 2, 5}[seed%3]
	l := &ledger{first: map[string]time.Time{}, runs: map[string]map[string]bool{}}
	for life := range int(seed % 8) { // seed 0 lives once, undisturbed
		s := &stormy{Store: disk, rng: rand.New(rand.NewPCG(seed, uint64(life+2))), bad: rng.Float64() * 0.2}
		bad := s.bad
		if s.bad = 0; life == 0 {
			bad = 0
		}
		n := startWith(t, engine.Config{Store: s, Lanes: lanes}) // or the node would not start
		s.mu.Lock()
		s.bad = bad
		s.mu.Unlock()
		if life == 0 {
			if _, err := n.PutJobs(ctx, graph()); err != nil {
				t.Fatal(err)
			}
		}
		n.consume("q", 5, l.take)
		time.Sleep(time.Duration(rng.Int64N(int64(6 * time.Second))))
		s.mu.Lock()
		s.dead = true
		s.mu.Unlock()
		if err := n.hub.Close(); err != nil {
			t.Error(err)
		}
		_ = n.Stop(ctx) // it is cut off
	}
	n := start(t, disk)
	if seed%8 == 0 {
		if _, err := n.PutJobs(ctx, graph()); err != nil {
			t.Fatal(err)
		}
	}
	n.consume("q", 5, l.take)
	time.Sleep(2 * time.Minute)
	wantGraph(t, n, l, seed%8 == 0)
	for _, j := range []string{"source", "sink"} {
		if _, err := n.DeleteJob(ctx, carillon.Key{Namespace: "default", Name: j}); err != nil &&
			!errors.Is(err, carillon.NotFound) {
			t.Fatal(err)
		}
	}
	time.Sleep(4 * time.Minute)
	page, err := n.ListJobs(ctx, carillon.JobQuery{})
	if err != nil || len(page.Jobs) > 0 {
		t.Errorf("left: %+v %v", page.Jobs, err)
	}
	if st := n.Stats(); st.Resident != 0 {
		t.Errorf("in memory: %+v", st)
	}
	n.stop()
	wantNoSmall(t, disk, 'e', 'o', 'i', 'a')
}

func wantGraph(t *testing.T, n *node, l *ledger, calm bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, j := range graph() {
		done, last := succeeded(t, n, j.Name)
		if !j.Recurring() && (done != 1 || len(l.runs[j.Name]) != 1) {
			t.Errorf("%s: %d successes of %d runs", j.Name, done, len(l.runs[j.Name]))
		}
		for _, of := range j.DependsOn {
			if l.first[j.Name].Before(l.first[of]) {
				t.Errorf("%s has run before %s", j.Name, of)
			}
			before, lastBefore := succeeded(t, n, of)
			if done > before || (calm && done != before) || last.Before(lastBefore) {
				t.Errorf("%s: %d successes, the last at %v; %s: %d, at %v", j.Name, done, last, of, before, lastBefore)
			}
		}
	}
}

// succeeded counts the successful runs in the history of a job, and returns when the last one ended.
func succeeded(t *testing.T, n *node, job string) (count int, last time.Time) {
	page, err := n.ListRuns(context.Background(), carillon.RunQuery{Job: job, PageSize: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range page.Runs {
		if r.Status == carillon.RunSucceeded {
			count++
			if r.Finished.After(last) {
				last = r.Finished
			}
		}
	}
	return count, last
}

func TestAPutLearnsWhatSucceededAndWhatIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		n := start(t, memory.New(memory.Options{Partitions: 5}))
		c := n.consume("q", 5, success)
		if _, err := n.PutJob(ctx, carillon.Job{Name: "done", Target: carillon.WorkerQueue("q")}); err != nil {
			t.Fatal(err)
		}
		if _, err := n.PutJob(ctx, carillon.Job{Name: "there", Due: carillon.In(time.Hour),
			Target: carillon.WorkerQueue("q")}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		put, err := n.PutJob(ctx, carillon.Job{Name: "x", DependsOn: []string{"nobody", "done", "there"},
			Target: carillon.WorkerQueue("q")})
		if err != nil || len(put.Warnings) != 1 || put.Warnings[0][:14] != "depends_on[0]:" {
			t.Fatalf("warnings %q, %v", put.Warnings, err)
		}
		time.Sleep(time.Second)
		j, err := n.GetJob(ctx, carillon.Key{Namespace: "default", Name: "x"})
		if err != nil || j.Status.Phase != carillon.PhaseWaiting ||
			fmt.Sprint(j.Status.Waiting) != "[nobody there]" {
			t.Fatalf("%+v %v", j.Status, err)
		}
		patch := carillon.Patch{Fields: []string{"depends_on"},
			Job: carillon.Job{DependsOn: []string{"done", "unknown"}}}
		if put, err = n.PatchJob(ctx, j.Key(), patch); err != nil || len(put.Warnings) != 1 {
			t.Fatalf("warnings %q, %v", put.Warnings, err)
		}
		if _, err := n.PutJob(ctx, carillon.Job{Name: "unknown", Target: carillon.WorkerQueue("q")}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if got := c.got(); len(got) != 3 || got[2].Job != "x" {
			t.Fatalf("delivered: %+v", got)
		}
		n.stop()
	})
}

// TestADeleteAfterARestartEndsTriggeredRuns: whose attempts are in the store and not in memory.
func TestADeleteAfterARestartEndsTriggeredRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		disk := memory.New(memory.Options{Partitions: 1})
		n := start(t, disk)
		c := n.consume("q", 5, silent)
		job := carillon.Job{Namespace: "default", Name: "a", Schedule: "@yearly", Lease: 5 * time.Hour,
			Target: carillon.WorkerQueue("q")}
		if _, err := n.PutJob(ctx, job); err != nil {
			t.Fatal(err)
		}
		run, err := n.TriggerJob(ctx, job.Key())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		n.stop()
		n = start(t, disk)
		if d, err := n.DeleteJob(ctx, job.Key()); err != nil || !d.Interrupted {
			t.Errorf("deleted: %+v %v", d, err)
		}
		if r, err := n.GetRun(ctx, "default", run.ID); err != nil || r.Status != carillon.RunCancelled {
			t.Errorf("run %+v %v", r, err)
		}
		if err := n.CompleteRun(ctx, "default", done(c.got()[0])); !errors.Is(err, carillon.FailedPrecondition) {
			t.Errorf("result: %v", err)
		}
		n.stop()
	})
}

// TestTooManyDependentsNameTheJob: puts as many jobs that depend on one job as there may be, and then some
// more.
func TestTooManyDependentsNameTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New(memory.Options{Partitions: 1}))
		job := func(i int) carillon.Job {
			return carillon.Job{Name: fmt.Sprint("after/", i), Due: carillon.In(time.Hour),
				DependsOn: []string{"other", "first"}, Target: carillon.WorkerQueue("q")}
		}
		for from := 0; from < partition.MaxDependents; from += carillon.MaxBatch {
			jobs := make([]carillon.Job, carillon.MaxBatch)
			for i := range jobs {
				jobs[i] = job(from + i)
				jobs[i].DependsOn = []string{"first"}
			}
			if _, err := n.PutJobs(context.Background(), jobs); err != nil {
				t.Fatal(err)
			}
		}
		_, one := n.PutJob(context.Background(), job(partition.MaxDependents))
		plain := carillon.Job{Name: "plain", Due: carillon.In(time.Hour), Target: carillon.WorkerQueue("q")}
		_, batch := n.PutJobs(context.Background(), []carillon.Job{plain, job(partition.MaxDependents)})
		for field, err := range map[string]error{"depends_on[1]": one, "jobs[1].depends_on[1]": batch} {
			e, ok := errors.AsType[*carillon.Error](err)
			if !ok || e.Kind != carillon.ResourceExhausted || e.Field != field {
				t.Errorf("%v, want it to be about %s", err, field)
			}
		}
		n.stop()
	})
}

// TestLettersAcrossNodes: a job runs after one of another node, even if both move meanwhile.
func TestLettersAcrossNodes(t *testing.T) {
	for _, moves := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := startFleet(t, memory.New(memory.Options{Partitions: 4}), 2, nil)
			f.deal(byParity)
			f.settled()
			ctx := context.Background()
			l := &ledger{first: map[string]time.Time{}, runs: map[string]map[string]bool{}}
			for _, n := range f.nodes {
				n.consume("q", 5, l.take)
			}
			first, second := f.at(0, 0), f.at(1, 0)
			source := carillon.Job{Name: first, Schedule: "@every 2s", Repeats: 10, Target: carillon.WorkerQueue("q")}
			sink := carillon.Job{Name: second, Schedule: "@every 1s", DependsOn: []string{first},
				Target: carillon.WorkerQueue("q")}
			for i, j := range []carillon.Job{source, sink} {
				if _, err := f.nodes[i].PutJob(ctx, j); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 20 {
				time.Sleep(time.Second)
				if moves && i%3 == 0 {
					f.deal(func(p int) int { return (p + i) % 2 })
				}
			}
			time.Sleep(20 * time.Second)
			synctest.Wait()
			if a, b := l.count(first), l.count(second); a != 10 || b < 8 || b > 10 {
				t.Errorf("%d and %d runs", a, b)
			}
			f.stop()
		})
	}
}

// TestAnUnknownNameAcrossNodes: the warning is the same as with one node.
func TestAnUnknownNameAcrossNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, memory.New(memory.Options{Partitions: 4}), 2, nil)
		f.deal(byParity)
		f.settled()
		put, err := f.nodes[0].PutJob(context.Background(),
			carillon.Job{Name: f.at(0, 0), DependsOn: []string{f.at(1, 0)}, Target: carillon.WorkerQueue("q")})
		if err != nil || len(put.Warnings) != 1 {
			t.Errorf("%+v %v", put.Warnings, err)
		}
		f.stop()
	})
}

// TestALateLetter: a late notice of a deposed owner does not release again what it has released before.
func TestALateLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, memory.New(memory.Options{Partitions: 2}), 2, nil)
		var mu sync.Mutex
		var letters []message.Notice
		f.intercept(func(_ int, what message.Message) error {
			if m, ok := what.(message.DeliverNotice); ok {
				mu.Lock()
				defer mu.Unlock()
				letters = append(letters, m.Notice)
			}
			return nil
		})
		f.deal(byParity)
		f.settled()
		ctx := context.Background()
		l := &ledger{first: map[string]time.Time{}, runs: map[string]map[string]bool{}}
		for _, n := range f.nodes {
			n.consume("q", 5, l.take)
		}
		first, second := f.at(0, 0), f.at(1, 0)
		if _, err := f.nodes[0].PutJob(ctx,
			carillon.Job{Name: first, Schedule: "@every 1h", Target: carillon.WorkerQueue("q")}); err != nil {
			t.Fatal(err)
		}
		sink := carillon.Job{Name: second, Schedule: "@every 10s", DependsOn: []string{first},
			Target: carillon.WorkerQueue("q")}
		if _, err := f.nodes[1].PutJob(ctx, sink); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := f.nodes[0].TriggerJob(ctx, carillon.Key{Namespace: "default", Name: first}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Second)
		}
		before := l.count(second)
		if before != 2 {
			t.Fatalf("%d runs", before)
		}
		f.deal(func(p int) int { return 1 - p%2 })
		f.settled()
		if _, err := message.Send(ctx, f.nodes[0], 1, message.DeliverNotice{Notice: letters[0]}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if n := l.count(second); n != before {
			t.Errorf("it ran %d times more", n-before)
		}
		f.stop()
	})
}
