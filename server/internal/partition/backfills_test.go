package partition

import (
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// threeTimes is a backfill of the times 10 s, 20 s and 30 s of the job a.
func threeTimes() store.Backfill {
	return store.Backfill{
		Key: carillon.Key{Namespace: "n", Name: "a"}, Seq: 1, Schedule: "@every 10s", Anchor: sec(10),
		From: sec(10), To: sec(30), Total: 3, Next: sec(10), Created: sec(100),
	}
}

func TestABackfillGoesThroughItsTimes(t *testing.T) {
	f := &backfill{rec: threeTimes(), timer: -1}
	if !f.parse() {
		t.Fatal("its schedule cannot be parsed")
	}
	for i, want := range []int64{sec(20), sec(30), 0} {
		if n, _ := f.allowance(sec(100), 100); n != 1 {
			t.Fatalf("it may make %d runs at once, one after the other", n)
		}
		f.begin(uint64(i + 2))
		if f.rec.Next != want || f.over() {
			t.Fatalf("after run %d it goes on with %d, want %d", i+1, f.rec.Next, want)
		}
		if n, _ := f.allowance(sec(100), 100); n != 0 {
			t.Fatalf("while run %d goes on it may make %d", i+1, n)
		}
		if !f.count(uint64(i+2), carillon.RunSucceeded) || f.count(uint64(i+2), carillon.RunSucceeded) {
			t.Fatalf("run %d is not counted once", i+1)
		}
	}
	f.finish(sec(200), 5)
	if !f.over() || f.goesOn() || f.rec.Status != carillon.BackfillDone || f.rec.Succeeded != 3 ||
		f.rec.Expires != sec(200)+5 {
		t.Fatalf("at its end: %+v", f.rec)
	}
}

func TestARateBoundsABackfill(t *testing.T) {
	rec := threeTimes()
	rec.Overlap, rec.Rate = carillon.OverlapAllow, 0.5
	f := &backfill{rec: rec, timer: -1}
	if n, wake := f.allowance(sec(100), 100); n != 1 || wake != 0 {
		t.Fatalf("it may make %d runs, and goes on at %d", n, wake)
	}
	if wake := f.pace(1, sec(100)); wake != sec(102) {
		t.Fatalf("after one run it goes on at %d", wake)
	}
	if n, wake := f.allowance(sec(101), 100); n != 0 || wake != sec(102) {
		t.Fatalf("too early it may make %d runs, and goes on at %d", n, wake)
	}
}

func TestBackfillsAreWrittenUntilTheyEnd(t *testing.T) {
	out := &builder{seq: 1}
	b := newBackfills(out, 0)
	f := b.start(threeTimes())
	if got := b.nextDue(sec(100)); got != f || b.nextDue(sec(100)) != nil {
		t.Fatal("it is not due once")
	}
	first := b.records()
	if len(first) != 1 || first[0].Key != backfillKey(UnfinishedBackfills, f.id) || first[0].Value == nil {
		t.Fatalf("its record: %v", first)
	}
	loaded := newBackfills(&builder{seq: 1}, 0)
	if err := loaded.load(append(first, store.MetaRecord{Key: "x", Value: []byte{0xff}}), 0); err == nil ||
		len(loaded.byID) != 1 {
		t.Fatalf("after takeover: %v, %d backfills", err, len(loaded.byID))
	}
	out.seq = 2
	if b.cancel(f.id) != f || b.cancel(f.id) != nil {
		t.Fatal("it is not cancelled once")
	}
	f.finish(sec(200), 0)
	b.end(f)
	if got := b.records(); len(got) != 2 || got[0].Value != nil || got[1].Key != EndedBackfill(f.id) {
		t.Fatalf("the records of its end: %v", got)
	}
	if b.committed(); len(b.byID) != 1 || len(b.ofJob) != 0 {
		t.Fatal("it is forgotten before its end is durable")
	}
	out.durable = 2
	if b.committed(); len(b.byID) != 0 {
		t.Fatal("it is not forgotten")
	}
}

func TestALostRunDoesNotHoldABackfill(t *testing.T) {
	b := newBackfills(&builder{seq: 1}, 0)
	f := b.start(threeTimes())
	f.rec.Open = []uint64{2}
	b.lost(store.Ref{Key: f.rec.Key, Seq: 2})
	if len(f.rec.Open) != 0 || f.rec.Failed != 1 {
		t.Fatalf("%+v", f.rec)
	}
	b.lost(store.Ref{Key: f.rec.Key})
	if !f.gone || len(b.ofJob) != 0 {
		t.Fatal("the backfill of a lost job goes on")
	}
}
