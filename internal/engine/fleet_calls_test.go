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
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/identity"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store"
	"github.com/carillonhq/carillon/store/memory"
)

// byParity assigns the even partitions to the first node and the odd ones to the second.
func byParity(p int) int { return p % 2 }

// at returns the n-th name of a job whose partition is p.
func (f *fleet) at(p, n int) string {
	for i := 0; ; i++ {
		k := carillon.Key{Namespace: "default", Name: fmt.Sprint("j", i)}
		if identity.PartitionOf(k, len(f.all)) != p {
			continue
		}
		if n--; n < 0 {
			return k.Name
		}
	}
}

func (f *fleet) get(name string) (carillon.Job, error) {
	return f.nodes[0].GetJob(context.Background(), carillon.Key{Namespace: "default", Name: name})
}

// count returns how many runs of a job were delivered.
func (l *ledger) count(job string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.runs[job])
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
			sink := carillon.Job{Name: second, Schedule: "@every 1s", DependsOn: []string{first}, Target: carillon.WorkerQueue("q")}
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
		put, err := f.nodes[0].PutJob(context.Background(), carillon.Job{Name: f.at(0, 0), DependsOn: []string{f.at(1, 0)}, Target: carillon.WorkerQueue("q")})
		if err != nil || len(put.Warnings) != 1 {
			t.Errorf("%+v %v", put.Warnings, err)
		}
		f.stop()
	})
}

// across returns a batch with jobs in each partition; the first is in partition 0.
func (f *fleet) across(each int) []carillon.Job {
	var jobs []carillon.Job
	for n := range each {
		for p := range f.all {
			jobs = append(jobs, carillon.Job{Name: f.at(p, n), Due: carillon.In(time.Hour), Target: carillon.WorkerQueue("q")})
		}
	}
	return jobs
}

func (f *fleet) there(jobs []carillon.Job) (n int) {
	f.t.Helper()
	for _, j := range jobs {
		switch _, err := f.get(j.Name); {
		case err == nil:
			n++
		case !errors.Is(err, carillon.NotFound):
			f.t.Fatal(err)
		}
	}
	return n
}

// TestABatchAndADeleteAcrossNodes: a batch and a delete reach jobs of all nodes, and only the first job's
// owner coordinates.
func TestABatchAndADeleteAcrossNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, memory.New(memory.Options{Partitions: 4}), 2, nil)
		f.deal(byParity)
		f.settled()
		ctx := context.Background()
		jobs := f.across(5)
		if _, err := f.nodes[1].PutJobs(ctx, jobs); !errors.Is(err, engine.ErrNotOwner) || f.there(jobs) > 0 {
			t.Errorf("by the wrong node: %v, %d jobs are there", err, f.there(jobs))
		}
		puts, err := f.nodes[0].PutJobs(ctx, jobs)
		if err != nil || len(puts) != len(jobs) || f.there(jobs) != len(jobs) {
			t.Fatalf("%d puts, %d jobs, %v", len(puts), f.there(jobs), err)
		}
		for i, p := range puts {
			if !p.Created || p.Job.Name != jobs[i].Name {
				t.Errorf("put %d: %+v", i, p)
			}
		}
		time.Sleep(5 * time.Minute)
		if left := f.left(store.KindApplied) + f.left(store.KindIntent); left != 0 {
			t.Errorf("%d marks and intents are left", left)
		}
		if n, err := f.nodes[1].DeleteJobs(ctx, "default", "j"); n != len(jobs) || err != nil || f.there(jobs) != 0 {
			t.Errorf("deleted %d, %v", n, err)
		}
		f.stop()
	})
}

// left returns how many metadata records of a kind there are.
func (f *fleet) left(kind byte) (n int) {
	f.t.Helper()
	for _, p := range f.all {
		s, err := f.store.Shard(p, store.Term{})
		if err != nil {
			f.t.Fatal(err)
		}
		records, err := s.MetaRecords(context.Background(), store.MetaQuery{Kind: kind, Limit: 10_000})
		if err != nil {
			f.t.Fatal(err)
		}
		n += len(records)
	}
	return n
}

// TestACoordinatorThatPauses: in the middle of a batch, and is deposed. The next owner stores the jobs, and
// what the old one asked for before the pause, and arrives late, changes nothing.
func TestACoordinatorThatPauses(t *testing.T) {
	for _, late := range []time.Duration{2 * time.Second, 9 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			f := startFleet(t, memory.New(memory.Options{Partitions: 4}), 3, nil)
			f.deal(func(p int) int { return min(p, 2) })
			f.settled()
			ctx := context.Background()
			jobs := f.across(3)
			var mu sync.Mutex
			var kept []func() // shares that are on their way
			held := true
			f.between = func(p int, what engine.Message) error {
				m, share := what.(engine.ApplyShare)
				mu.Lock()
				defer mu.Unlock()
				if !share || len(m.Share.Reqs) == 0 || !held || p != 1 { // without jobs it asks for the term
					return nil
				}
				arrive, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				kept = append(kept, func() {
					defer cancel()
					if _, err := engine.Send(arrive, f.nodes[1], p, m); err != nil && carillon.KindOf(err) != carillon.DeadlineExceeded {
						t.Error(err)
					}
				})
				err := carillon.Errorf(carillon.Unavailable, "", "the connection is lost")
				err.Unknown = true
				return err
			}
			ended := make(chan error, 1)
			go func() {
				_, err := f.nodes[0].PutJobs(ctx, jobs)
				ended <- err
			}()
			time.Sleep(100 * time.Millisecond)
			mu.Lock()
			held = false // nothing is lost of the next coordinator's
			mu.Unlock()
			f.deal(func(p int) int { return max(1, min(p, 2)) }) // deposed, between two tries
			f.settled()
			err := <-ended
			if e, ok := errors.AsType[*carillon.Error](err); err != nil && (!ok || !e.Unknown || errors.Is(err, engine.ErrNotOwner)) {
				t.Errorf("the caller is told %v", err)
			}
			time.Sleep(time.Second)
			if n := f.there(jobs); n != len(jobs) {
				t.Errorf("%d of %d jobs are there", n, len(jobs))
			}
			if n, err := f.nodes[1].DeleteJobs(ctx, "default", "j"); n != len(jobs) || err != nil {
				t.Errorf("deleted %d, %v", n, err)
			}
			time.Sleep(late - 2*time.Second)
			if len(kept) == 0 {
				t.Error("no share was late")
			}
			for _, arrive := range kept {
				arrive()
			}
			if n := f.there(jobs); n != 0 {
				t.Errorf("%d jobs have come back", n)
			}
			f.stop()
		})
	}
}

// TestALateLetter: a late notice of a deposed owner does not release again what it has released before.
func TestALateLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, memory.New(memory.Options{Partitions: 2}), 2, nil)
		var mu sync.Mutex
		var letters []partition.Notice
		f.between = func(_ int, what engine.Message) error {
			if m, ok := what.(engine.DeliverNotice); ok {
				mu.Lock()
				defer mu.Unlock()
				letters = append(letters, m.Notice)
			}
			return nil
		}
		f.deal(byParity)
		f.settled()
		ctx := context.Background()
		l := &ledger{first: map[string]time.Time{}, runs: map[string]map[string]bool{}}
		for _, n := range f.nodes {
			n.consume("q", 5, l.take)
		}
		first, second := f.at(0, 0), f.at(1, 0)
		if _, err := f.nodes[0].PutJob(ctx, carillon.Job{Name: first, Schedule: "@every 1h", Target: carillon.WorkerQueue("q")}); err != nil {
			t.Fatal(err)
		}
		sink := carillon.Job{Name: second, Schedule: "@every 10s", DependsOn: []string{first}, Target: carillon.WorkerQueue("q")}
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
		if _, err := engine.Send(ctx, f.nodes[0], 1, engine.DeliverNotice{Notice: letters[0]}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if n := l.count(second); n != before {
			t.Errorf("it ran %d times more", n-before)
		}
		f.stop()
	})
}

// TestACallWhoseCallerHasGone: it is not carried out, and the error says so.
func TestACallWhoseCallerHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &faulty{Store: memory.New(memory.Options{Partitions: 1})}
		n := startWith(t, engine.Config{Store: &slowLandlord{faulty: s}})
		s.fail(func(func() error) error { return errors.New("no") })
		job := carillon.Job{Name: "a", Due: carillon.In(time.Hour), Target: carillon.WorkerQueue("q")}
		if _, err := n.PutJob(context.Background(), job); !errors.Is(err, carillon.Unavailable) {
			t.Fatal(err)
		}
		s.fail(nil)
		time.Sleep(time.Second) // the partition is being claimed, which takes long
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := n.PutJob(ctx, job)
		if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.DeadlineExceeded || e.Unknown {
			t.Errorf("got %v", err)
		}
		time.Sleep(time.Minute)
		if _, err := n.GetJob(context.Background(), carillon.Key{Namespace: "default", Name: "a"}); !errors.Is(err, carillon.NotFound) {
			t.Errorf("it was done: %v", err)
		}
		n.stop()
	})
}

// TestRelativeTimesCountFromWhenACallWasSeen: by the first node, however late the call reaches the owner.
func TestRelativeTimesCountFromWhenACallWasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New(memory.Options{Partitions: 2}))
		began := time.Now()
		ctx := context.Background()
		time.Sleep(3 * time.Second)
		job := carillon.Job{Due: carillon.In(time.Minute), Target: carillon.WorkerQueue("q")}
		check := func(what string, put carillon.PutResult, err error) {
			t.Helper()
			if err != nil || !put.Job.Status.NextRun.Equal(began.Add(time.Minute)) {
				t.Errorf("%s: %+v %v", what, put.Job.Status, err)
			}
		}
		job.Name = "a"
		put, err := engine.Send(ctx, n, 0, engine.PutJob{Job: job, SeenAt: began})
		check("put", put, err)
		job.Name = "b"
		puts, err := engine.Send(ctx, n, 0, engine.PutJobs{Jobs: []carillon.Job{job}, SeenAt: began})
		check("batch", puts[0], err)
		job.Name, job.Due = "c", carillon.In(time.Hour)
		if _, err := n.PutJob(ctx, job); err != nil {
			t.Fatal(err)
		}
		patch := carillon.Patch{Fields: []string{"due_time"}, Job: carillon.Job{Due: carillon.In(time.Minute)}}
		key := carillon.Key{Namespace: "default", Name: "c"}
		put, err = engine.Send(ctx, n, 0, engine.PatchJob{Key: key, Patch: patch, SeenAt: began})
		check("patch", put, err)
		n.stop()
	})
}
