package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// How much BenchLists fills a store with, over all of its partitions.
const (
	benchJobs    = 1_000_000
	benchStaged  = 1_000 // of them
	benchPending = 500   // pending runs, staged too
	benchRuns    = 200_000
	benchPage    = 100
)

// benchEnds is with how many of a hundred runs end with each status.
var benchEnds = map[carillon.RunStatus]int{carillon.RunSucceeded: 90, carillon.RunFailed: 5,
	carillon.RunDead: 1, carillon.RunCancelled: 2, carillon.RunSkipped: 2}

// BenchLists measures the lists of an empty store, once it is filled with a million jobs and 200,000 finished
// runs. An operation is a page of a hundred records of one partition; all/… asks all partitions for one,
// eight at a time, as the first page of a list over all of them does.
func BenchLists(b *testing.B, s store.Store) {
	b.Helper()
	n := s.Meta().Partitions
	shards := benchShards(b, s)
	began := time.Now()
	benchFill(b, shards)
	b.Logf("filled in %v", time.Since(began).Round(time.Second))
	namespace, hour := "default", int64(time.Hour)
	staged, retrying := carillon.PhaseStaged, carillon.PhaseRetrying
	middle := carillon.Key{Namespace: namespace, Name: benchName(benchJobs / 2)}
	lists := []struct {
		name string
		ask  func(p int) (int, error)
	}{
		{"staged jobs", benchList(shards, store.ListQuery{Namespace: namespace, Phase: &staged})},
		{"staged jobs and runs of all namespaces", benchList(shards, store.ListQuery{Phase: &staged, Pending: true})},
		{"staged jobs and runs, from the middle", benchList(shards, store.ListQuery{Namespace: namespace,
			Pending: true, Phase: &staged, After: middle.Name})},
		{"a phase that nothing is in", benchList(shards, store.ListQuery{Phase: &retrying, Pending: true})},
		{"pending runs of a job", benchList(shards, store.ListQuery{PendingOf: &middle})},
		{"failed runs", benchRunsOf(shards, ended(namespace, carillon.RunFailed))},
		{"succeeded runs", benchRunsOf(shards, ended(namespace, carillon.RunSucceeded))},
		{"succeeded runs of an hour long ago", benchRunsOf(shards, store.RunQuery{Namespace: namespace,
			Status: new(carillon.RunSucceeded), Since: base + hour, Until: base + 2*hour})},
	}
	for _, l := range lists {
		b.Run("one/"+l.name, func(b *testing.B) {
			benchTimes(b, func(i int) error { _, err := l.ask(i % n); return err })
		})
		b.Run("all/"+l.name, func(b *testing.B) {
			benchTimes(b, func(int) error { return eachPartition(n, l.ask) })
		})
	}
}

func benchName(i int) string { return fmt.Sprintf("orders/%08x-reminder", uint32(i)*2654435761) }

// benchShards claims all partitions.
func benchShards(b *testing.B, s store.Store) []store.Shard {
	b.Helper()
	numbers := make([]int, s.Meta().Partitions)
	for i := range numbers {
		numbers[i] = i
	}
	terms, err := s.Leaser().Claim(b.Context(), "node", numbers, lasting)
	if err != nil {
		b.Fatal(err)
	}
	shards := make([]store.Shard, len(numbers))
	for i := range shards {
		if shards[i], err = s.Shard(i, terms[i]); err != nil {
			b.Fatal(err)
		}
	}
	return shards
}

// benchFill fills the partitions, several side by side.
func benchFill(b *testing.B, shards []store.Shard) {
	b.Helper()
	const batch = 1000
	err := eachPartition(len(shards), func(p int) (int, error) {
		var out store.Batch
		flush := func(least int) error {
			if len(out.Puts)+len(out.Runs) < least {
				return nil
			}
			err := shards[p].Apply(b.Context(), &out)
			out = store.Batch{}
			return err
		}
		for i := p; i < benchJobs; i += len(shards) {
			out.Puts = append(out.Puts, benchRecords(p, i/len(shards), i)...)
			if i < benchRuns {
				out.Runs = append(out.Runs, benchRun(p, i))
			}
			if err := flush(batch); err != nil {
				return 0, err
			}
		}
		return 0, flush(1)
	})
	if err != nil {
		b.Fatal(err)
	}
}

// benchRecords are a partition's n-th job, and its pending run if it has one.
func benchRecords(p, n, i int) []store.Record {
	k := carillon.Key{Namespace: "default", Name: benchName(i)}
	r := store.Record{Ref: store.Ref{Key: k}, Spec: specOf(fmt.Sprintf("%0200d", i), "team=billing"),
		State: store.State{UID: uidOf(k, 1), Generation: 1, Created: base, Updated: base, Priority: 2,
			Due: base + int64(i), Next: base + int64(i)}}
	if n%(benchJobs/benchStaged) == p%7 {
		r.State.Phase, r.State.Queue = carillon.PhaseStaged, k.Namespace+"\x00worker\x00mail"
	}
	if n%(benchJobs/benchPending) != p%5 {
		return []store.Record{r}
	}
	run := r
	run.Seq, run.Spec, run.State.Phase = 1, nil, carillon.PhaseStaged
	run.State.Queue, run.State.Due = k.Namespace+"\x00worker\x00mail", 0
	return []store.Record{r, run}
}

// benchRun is a finished run; they end one after the other, in a day.
func benchRun(p, i int) store.RunRecord {
	k := carillon.Key{Namespace: "default", Name: benchName(i)}
	at := base + int64(i)*int64(24*time.Hour)/benchRuns
	r := store.RunRecord{Key: k, ID: store.RunID{Partition: uint16(p), UID: uidOf(k, 1), Scheduled: at}, Due: at,
		Started: at, Finished: at, Expires: at + int64(30*24*time.Hour), Attempt: 1,
		Queue:  k.Namespace + "\x00worker\x00mail",
		Labels: map[string]string{"team": "billing"}}
	left := i * 37 % 100
	for _, status := range statuses {
		if r.Status = status; left < benchEnds[status] {
			break
		}
		left -= benchEnds[status]
	}
	return r
}

func benchList(shards []store.Shard, q store.ListQuery) func(p int) (int, error) {
	q.Limit, q.MaxSpec = benchPage, 1024
	return func(p int) (int, error) {
		got, err := shards[p].List(context.Background(), q)
		return len(got), err
	}
}

func benchRunsOf(shards []store.Shard, q store.RunQuery) func(p int) (int, error) {
	q.Limit = benchPage
	return func(p int) (int, error) {
		got, err := shards[p].Runs(context.Background(), q)
		return len(got), err
	}
}

// eachPartition calls f for all partitions, eight at a time.
func eachPartition(n int, f func(p int) (int, error)) error {
	var wg sync.WaitGroup
	errs := make([]error, n)
	next := make(chan int)
	for range min(n, 8) {
		wg.Go(func() {
			for p := range next {
				_, errs[p] = f(p)
			}
		})
	}
	for p := range n {
		next <- p
	}
	close(next)
	wg.Wait()
	return errors.Join(errs...)
}

// benchTimes calls f b.N times and reports how long it took in the middle, and at worst but for one in a
// hundred.
func benchTimes(b *testing.B, f func(i int) error) {
	took := make([]time.Duration, b.N)
	for i := range took {
		began := time.Now()
		if err := f(i); err != nil {
			b.Fatal(err)
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(0, "ns/op")
}
