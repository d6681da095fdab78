package partition_test

import (
	"context"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// TestABackfillWhoseZoneHasGoneEnds in the middle: runs that have begun go on, and a record says why the
// others do not.
func TestABackfillWhoseZoneHasGoneEnds(t *testing.T) {
	for _, begun := range []bool{false, true} {
		r := newRig(t, partition.Config{})
		r.mustPut(carillon.Job{Name: "a", Schedule: "@hourly"})
		b := r.mustBackfill("a", carillon.BackfillSpec{From: instant(epoch - 5*3600e9), To: instant(epoch - 1)})
		if begun {
			r.flush()
		} else {
			r.land()
		}
		small := r.backfills(partition.UnfinishedBackfills)[0]
		rec, err := codec.DecodeBackfill(small.Value)
		if err != nil {
			t.Fatal(err)
		}
		rec.TimeZone = "Gone/Away"
		if err := r.shard.Apply(context.Background(),
			&store.Batch{MetaRecords: []store.MetaRecord{{Kind: small.Kind, Key: small.Key,
				Value: codec.AppendBackfill(nil, &rec)}}}); err != nil {
			t.Fatal(err)
		}
		r.start()
		r.flush()
		left := uint64(5)
		if begun {
			left = 4
			if v := r.succeed(r.deliver(5)[0]); v != partition.Accepted {
				t.Fatal(v)
			}
			r.flush()
		}
		got, ok := r.look(b.ID)
		if !ok || got.Status != carillon.BackfillCancelled || got.Finished.IsZero() || got.Begun+left != 5 ||
			got.Succeeded != got.Begun {
			t.Fatalf("begun %v: %+v", begun, got)
		}
		var why []store.RunRecord
		for _, h := range r.history("a") {
			if h.Reason == partition.ReasonSchedule {
				why = append(why, h)
			}
		}
		if len(why) != 1 || why[0].Skipped != left {
			t.Fatalf("begun %v: history %+v", begun, r.history("a"))
		}
		if s := r.m.Stats(); s.Backfills != 0 || r.jobs()[0].State.Backfills != 0 {
			t.Fatalf("begun %v: it goes on: %+v", begun, s)
		}
	}
}
