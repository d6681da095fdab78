package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// TestSideBySide: partitions are read concurrently up to a bound, each once, and no more after an error.
func TestSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, n := range []int{0, 1, readers, 8 * readers, 8*readers + 1} {
			var calls [8*readers + 1]atomic.Int64
			begin := time.Now()
			err := sideBySide(n, func(i int) error { calls[i].Add(1); time.Sleep(time.Second); return nil })
			rounds := (n + readers - 1) / readers
			if took := time.Since(begin); err != nil || took != time.Duration(rounds)*time.Second {
				t.Errorf("%d reads of a second took %v, want %d rounds; %v", n, took, rounds, err)
			}
			for i := range calls {
				if got, want := calls[i].Load() == 1, i < n; got != want {
					t.Errorf("%d reads: read %d was done %d times", n, i, calls[i].Load())
				}
			}
		}
		wrong := errors.New("wrong")
		var calls atomic.Int64
		err := sideBySide(100, func(i int) error {
			calls.Add(1)
			time.Sleep(time.Second)
			if i == 3 {
				return wrong
			}
			return nil
		})
		if !errors.Is(err, wrong) || calls.Load() >= 3*readers {
			t.Errorf("%v after %d reads", err, calls.Load())
		}
	})
}

// TestEachIsCalledWhateverOthersSay: all calls are made, at once, and the error is the first by number.
func TestEachIsCalledWhateverOthersSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		begin := time.Now()
		err := eachAtOnce(5*readers, func(i int) error {
			calls.Add(1)
			if i%2 == 0 {
				return nil
			}
			time.Sleep(time.Second - time.Duration(i)*time.Millisecond) // the last one fails first
			return fmt.Errorf("call %d", i)
		})
		if err == nil || err.Error() != "call 1" || calls.Load() != 5*readers || time.Since(begin) >= time.Second {
			t.Errorf("%v after %d calls and %v", err, calls.Load(), time.Since(begin))
		}
	})
}

// TestMergeHasEachJobOnceInNameOrder: whatever the pages, the partitions and how many records are read at a
// time, with specs that are too long to come along and jobs that are deleted meanwhile.
func TestMergeHasEachJobOnceInNameOrder(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		batches := make([]*store.Batch, 1+rng.IntN(5))
		for p := range batches {
			batches[p] = &store.Batch{}
		}
		var want []string
		late := make([]*store.Batch, len(batches)) // deleted after the first read
		for i := range rng.IntN(60) {
			p := rng.IntN(len(batches))
			j := carillon.Job{Namespace: "ns", Name: fmt.Sprintf("j%03d", i), Target: carillon.WorkerQueue("q"),
				Data: carillon.Bytes(make([]byte, rng.IntN(3)*100), "")}
			batches[p].Puts = append(batches[p].Puts, recordOf(j, store.State{Generation: 1}))
			if len(j.Data.Bytes) == 200 && rng.IntN(3) == 0 { // its spec is read by itself
				if late[p] == nil {
					late[p] = &store.Batch{}
				}
				late[p].Deletes = append(late[p].Deletes, store.Ref{Key: j.Key()})
				continue
			}
			want = append(want, j.Name)
		}
		_, shards := written(t, batches...)
		m := &jobMerge{compare: byName}
		q, first := store.ListQuery{Namespace: "ns", MaxSpec: 150}, 1+rng.IntN(5)
		for p, shard := range shards {
			m.sources = append(m.sources, &source[store.Record]{number: p, shard: shard, read: pagesOf(shard, q),
				size: first})
			if err := m.sources[p].refill(t.Context()); err != nil {
				t.Fatal(err)
			}
			if late[p] != nil {
				if err := shard.Apply(t.Context(), late[p]); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := m.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		var got []string
		for more, size := true, 1+rng.IntN(20); more; {
			l := jobList{partitions: new(partitions), q: &carillon.JobQuery{PageSize: size}}
			var err error
			more, err = l.read(t.Context(), m, time.Now().UnixNano())
			if err != nil || len(l.page) > size || more && len(l.page) < size {
				t.Fatalf("seed %d: a page of %d of %d, more: %v, %v", seed, len(l.page), size, more, err)
			}
			for _, j := range l.page {
				got = append(got, j.Name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("seed %d: %v, want %v", seed, got, want)
		}
	}
}
