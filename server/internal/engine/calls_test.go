package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// byParity assigns the even partitions to the first node and the odd ones to the second.
func byParity(p int) int { return p % 2 }

// at returns the n-th name of a job whose partition is p.
func (f *fleet) at(p, n int) string {
	for i := 0; ; i++ {
		k := carillon.Key{Namespace: "default", Name: fmt.Sprint("j", i)}
		if store.PartitionOf(k, len(f.all)) != p {
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

// across returns a batch with jobs in each partition; the first is in partition 0.
func (f *fleet) across(each int) []carillon.Job {
	var jobs []carillon.Job
	for n := range each {
		for p := range f.all {
			jobs = append(jobs, carillon.Job{Name: f.at(p, n), Due: carillon.In(time.Hour),
				Target: carillon.WorkerQueue("q")})
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
		if _, err := n.GetJob(context.Background(),
			carillon.Key{Namespace: "default", Name: "a"}); !errors.Is(err, carillon.NotFound) {
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
		put, err := message.Send(ctx, n, 0, message.PutJob{Job: job, SeenAt: began})
		check("put", put, err)
		job.Name = "b"
		puts, err := message.Send(ctx, n, 0, message.PutJobs{Jobs: []carillon.Job{job}, SeenAt: began})
		check("batch", puts[0], err)
		job.Name, job.Due = "c", carillon.In(time.Hour)
		if _, err := n.PutJob(ctx, job); err != nil {
			t.Fatal(err)
		}
		patch := carillon.Patch{Fields: []string{"due_time"}, Job: carillon.Job{Due: carillon.In(time.Minute)}}
		key := carillon.Key{Namespace: "default", Name: "c"}
		put, err = message.Send(ctx, n, 0, message.PatchJob{Key: key, Patch: patch, SeenAt: began})
		check("patch", put, err)
		n.stop()
	})
}
