package pebble_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/pebble"
)

const (
	crashPartitions = 8
	crashGroup      = 3 // of these partitions, which are written as a group
	crashRecords    = 3 // of a batch
)

// diary is what one owner knows of its partition: batch n puts the same few records with generation n.
type diary struct {
	mu    sync.Mutex
	sent  uint64
	acked uint64
}

func (d *diary) send() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sent++
	return d.sent
}

func (d *diary) ack(n uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.acked = n
}

func (d *diary) read() (acked uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.acked
}

// batchOf is batch n: the records move in the due index each time, and the spec is large now and then.
func batchOf(n uint64) *store.Batch {
	b := &store.Batch{MetaRecords: []store.MetaRecord{{Kind: 1, Key: "n", Value: fmt.Append(nil, n)}}}
	for i := range crashRecords {
		r := job(i, int64(n), benchSpec)
		if n%5 == 0 {
			r.Spec = make([]byte, 3000)
		}
		r.State.Generation = n
		b.Puts = append(b.Puts, r)
	}
	b.Runs = append(b.Runs, finished(b.Puts[0], int64(n)))
	return b
}

// TestCrash cuts the power at a random moment while every partition writes, some of them as a group: what was
// acknowledged is there, and the rest is there whole or not at all. A disk of 0 % kept nothing that was not
// synced, others kept some of it.
func TestCrash(t *testing.T) {
	seeds := uint64(40)
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			fs := vfs.NewCrashableMem()
			for range 3 { // what survived a crash crashes again
				fs = crashOnce(t, fs, r)
			}
		})
	}
}

// crashOnce opens the store, checks it, writes, and returns a copy of the disk as a crash left it.
func crashOnce(t *testing.T, fs *vfs.MemFS, r *rand.Rand) *vfs.MemFS {
	t.Helper()
	s, err := pebble.Open("data/store", pebble.Options{FS: fs, Partitions: crashPartitions,
		MemTableBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	shards := own(t, s, crashPartitions)
	diaries := make([]*diary, len(shards))
	for p, sh := range shards {
		diaries[p] = &diary{sent: present(t, sh)}
		diaries[p].acked = diaries[p].sent
	}
	var after *vfs.MemFS
	var known []uint64
	crash := make(chan struct{})
	var writers sync.WaitGroup
	moment := r.IntN(400)
	var steps sync.WaitGroup
	steps.Add(moment)
	left := make(chan struct{}, moment)
	for range moment {
		left <- struct{}{}
	}
	writers.Go(func() {
		write(t, applyAll(s, shards[:crashGroup]...), diaries[:crashGroup], left, &steps, crash)
	})
	for p := crashGroup; p < crashPartitions; p++ {
		writers.Go(func() { write(t, shards[p].Apply, diaries[p:p+1], left, &steps, crash) })
	}
	steps.Wait() // so many batches were acknowledged, and others are under way
	for _, d := range diaries {
		known = append(known, d.read())
	}
	after = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: r.IntN(3) * 50, RNG: r})
	close(crash)
	writers.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	verify(t, after, known, diaries)
	return after
}

// applyAll is an Apply that gives each of the shards the batch, as a group.
func applyAll(s *pebble.Store, shards ...store.Shard) func(ctx context.Context, b *store.Batch) error {
	return func(ctx context.Context, b *store.Batch) error {
		var writes []store.Write
		for _, sh := range shards {
			writes = append(writes, store.Write{Shard: sh, Batch: b})
		}
		return s.ApplyGroup(ctx, writes)
	}
}

// write applies batches until the crash. The diaries are of the partitions that a batch goes to, and agree.
func write(t *testing.T, apply func(ctx context.Context, b *store.Batch) error, diaries []*diary,
	left chan struct{},
	steps *sync.WaitGroup, crash chan struct{}) {
	for {
		var n uint64
		for _, d := range diaries {
			n = d.send()
		}
		if err := apply(t.Context(), batchOf(n)); err != nil {
			t.Error(err)
			return
		}
		for _, d := range diaries {
			d.ack(n)
		}
		select {
		case <-left:
			steps.Done()
		case <-crash:
			return
		default:
		}
	}
}

// verify opens what the crash left.
func verify(t *testing.T, fs *vfs.MemFS, known []uint64, diaries []*diary) {
	t.Helper()
	s, err := pebble.Open("data/store", pebble.Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	var group uint64
	for p, sh := range own(t, s, crashPartitions) {
		got := present(t, sh)
		if p == 0 {
			group = got
		} else if p < crashGroup && got != group {
			t.Errorf("partition %d has batch %d, and partition 0 of the same group %d", p, got, group)
		}
		if got < known[p] || got > diaries[p].sent {
			t.Errorf("partition %d has batch %d; %d was acknowledged, %d was the last one sent", p, got,
				known[p], diaries[p].sent)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// present is the batch that the partition holds; every part of it must be there, and nothing else.
func present(t *testing.T, sh store.Shard) uint64 {
	t.Helper()
	found, err := sh.MetaRecords(t.Context(), store.MetaQuery{Kind: 1, Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	var n uint64
	if len(found) == 1 {
		if _, err := fmt.Sscan(string(found[0].Value), &n); err != nil {
			t.Fatal(err)
		}
	}
	due, err := sh.Due(t.Context(), store.DueQuery{Priority: 2, Until: math.MaxInt64, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	if n == 0 && len(due) == 0 {
		return 0
	}
	if len(due) != crashRecords {
		t.Fatalf("batch %d: the due index has %d records", n, len(due))
	}
	for _, d := range due {
		got, err := sh.Read(t.Context(), []store.Ref{d.Ref})
		if err != nil {
			t.Fatal(err)
		}
		if d.State.Generation != n || d.State.Due != int64(n) || got[0].State.Generation != n ||
			len(got[0].Spec) == 0 {
			t.Fatalf("batch %d: %s is due as of batch %d and read as of %d", n, d.Name, d.State.Generation,
				got[0].State.Generation)
		}
	}
	k := key(0)
	runs, err := sh.Runs(t.Context(), store.RunQuery{Job: &k, Limit: 1})
	if err != nil || len(runs) != 1 || runs[0].Finished != int64(n) {
		t.Fatalf("batch %d: newest run %+v, %v", n, runs, err)
	}
	return n
}
