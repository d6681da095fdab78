package partition_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// closedChain stores a closed chain with an entry for each of the times.
func (r *rig) closedChain(name string, times ...int64) {
	r.t.Helper()
	c, b := store.AuditChain{First: 1, Closed: true}, &store.Batch{}
	for _, at := range times {
		e := store.AuditEntry{Previous: c.Hash, Time: at, Action: "PutJob", Resource: name}
		key, value := store.AuditKey(name, c.Last+1), codec.AppendAudit(nil, &e)
		b.MetaRecords = append(b.MetaRecords, store.MetaRecord{Kind: store.KindAudit, Key: key, Value: value})
		c.Last, c.Hash, c.Time = c.Last+1, store.AuditHash(key, value), at
	}
	b.MetaRecords = append(b.MetaRecords,
		store.MetaRecord{Kind: store.KindAuditChain, Key: name, Value: codec.AppendAuditChain(nil, &c)})
	if err := r.shard.Apply(context.Background(), b); err != nil {
		r.t.Fatal(err)
	}
}

// sweepAudit makes one sweep, as the engine does, and returns how many entries each step has asked for.
func (r *rig) sweepAudit() (limits []int) {
	r.t.Helper()
	for more, begins := true, true; more; begins = false {
		if len(limits) > 1000 {
			r.t.Fatal("the sweep does not end")
		}
		q, ok := r.m.Audit.Sweeps(r.now, begins)
		if !ok {
			break
		}
		oldest, err := r.shard.MetaRecords(context.Background(), q)
		if err != nil {
			r.t.Fatal(err)
		}
		limits = append(limits, q.Limit)
		var sound bool
		if more, sound = r.m.Audit.Sweep(oldest, r.now); !sound {
			more = r.m.Audit.LeaveAlone(r.now)
		}
		r.land()
	}
	return limits
}

// times returns n times, one every second up to an end.
func times(n int, end int64) (all []int64) {
	for i := range n {
		all = append(all, end-int64(n-1-i)*int64(time.Second))
	}
	return all
}

// TestAuditSweepOfSeveralChains: one sweep removes what is too old from all chains, and what is not is read
// once.
func TestAuditSweepOfSeveralChains(t *testing.T) {
	r := newRig(t, partition.Config{AuditKeep: time.Hour})
	old := r.now - int64(2*time.Hour)
	r.closedChain("1-1-a", times(3000, old)...)
	r.closedChain("1-1-b", append(times(1500, old), r.now)...)
	r.closedChain("1-1-c", times(20, old)...)
	r.restart()
	r.record("new")
	r.land()
	r.sweepAudit()
	r.wantChains(4, 2)
	if limits := r.sweepAudit(); len(limits) > 0 {
		t.Errorf("the next sweep reads, %v entries at a time", limits)
	}
	r.now += int64(time.Hour)
	if limits := r.sweepAudit(); slices.Max(limits) > 100 {
		t.Errorf("two entries are too old, and a sweep reads %v", limits)
	}
	r.wantChains(4, 0)
}

// TestAuditMostOfAPartition: so many are kept of all its chains, which are the newest.
func TestAuditMostOfAPartition(t *testing.T) {
	r := newRig(t, partition.Config{AuditMost: 1000})
	r.closedChain("1-1-a", times(2000, r.now-int64(time.Hour))...)      // over half an hour
	r.closedChain("1-1-b", times(2000, r.now-int64(80*time.Minute))...) // which overlaps with this one
	r.restart()
	r.record("new")
	r.land()
	r.sweepAudit()
	r.wantChains(3, 1000)
	var all []int64
	for _, s := range r.small(store.KindAudit) {
		e, err := codec.DecodeAudit(s.Value)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e.Time)
	}
	if oldest, want := slices.Min(all), r.now-int64(time.Hour)-998*int64(time.Second); oldest != want {
		t.Errorf("the oldest one is %v older than that should be", time.Duration(want-oldest))
	}
}

// TestAuditSweepPassesDamage: entries that cannot be read go with the next one that can be, and a chain whose
// entries are missing does not keep others from being swept.
func TestAuditSweepPassesDamage(t *testing.T) {
	r := newRig(t, partition.Config{AuditKeep: time.Hour})
	old := r.now - int64(2*time.Hour)
	r.closedChain("1-1-a", old, old, old, r.now, r.now)
	r.closedChain("1-1-b", old)
	r.closedChain("1-1-c", old, r.now)
	damage := &store.Batch{MetaRecords: []store.MetaRecord{{Kind: store.KindAudit, Key: store.AuditKey("1-1-b", 1)}}}
	for _, n := range []uint64{1, 2, 4} {
		damage.MetaRecords = append(damage.MetaRecords,
			store.MetaRecord{Kind: store.KindAudit, Key: store.AuditKey("1-1-a", n), Value: []byte{0xff}})
	}
	if err := r.shard.Apply(context.Background(), damage); err != nil {
		t.Fatal(err)
	}
	r.restart()
	r.sweepAudit()
	var left []string
	for _, s := range r.small(store.KindAudit) {
		left = append(left, s.Key)
	}
	want := []string{store.AuditKey("1-1-a", 4), store.AuditKey("1-1-a", 5), store.AuditKey("1-1-c", 2)}
	if fmt.Sprint(left) != fmt.Sprint(want) {
		t.Errorf("%v are left, want %v", left, want)
	}
}

// TestStepsOfAnAuditSweep: nearly all of them remove as many entries as one may.
func TestStepsOfAnAuditSweep(t *testing.T) {
	const entries = 20_000
	for what, cfg := range map[string]partition.Config{
		"too old":  {AuditKeep: time.Hour},
		"too many": {AuditMost: 10},
	} {
		r := newRig(t, cfg)
		r.closedChain("1-1-a", times(entries, r.now-int64(2*time.Hour))...)
		r.closedChain("1-1-b", times(10, r.now)...)
		r.restart()
		steps := r.sweepAudit()
		r.wantChains(2, 10)
		if most := entries/partition.AuditSweep + 8; len(steps) > most {
			t.Errorf("%s: %d entries are removed in %d steps, of %v entries; want %d steps at most", what, entries, len(steps), steps, most)
		}
	}
}

// TestADamagedAuditChainIsClosed: what is recorded afterwards is in another chain, for which the bounds hold;
// also if this term has begun it.
func TestADamagedAuditChainIsClosed(t *testing.T) {
	r := newRig(t, partition.Config{AuditMost: 10})
	damaged := func() {
		t.Helper()
		if _, ok := r.m.Audit.Sweeps(r.now, true); !ok {
			t.Fatal("nothing is asked for")
		}
		r.m.Audit.LeaveAlone(r.now)
	}
	record := func(some int) {
		for i := range some {
			r.record(fmt.Sprint(i))
			r.land()
		}
	}
	record(31)
	r.restart()
	r.record("in the batch that is being filled")
	damaged()
	r.land()
	r.wantChains(1, 32)
	record(30)
	r.wantChains(2, 62)
	r.sweepAudit()
	r.wantChains(2, 42)
	for n := range 3 { // each time the chain that this term has begun
		record(5)
		damaged()
		record(1) // with which it is closed
		r.wantChains(2+n, 48+n*16)
		record(30)
		r.wantChains(3+n, 78+n*16)
		r.sweepAudit()
		r.wantChains(3+n, 58+n*16)
	}
	r.restart()
	record(1)
	r.wantChains(5, 91)
}
