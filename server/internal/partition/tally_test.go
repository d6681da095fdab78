package partition_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
)

var (
	narrowLimit = delivery.ActorLimit(carillon.DefaultNamespace, "cat", "n")
	catLimit    = delivery.ActorLimit(carillon.DefaultNamespace, "cat", "")
)

// catRig has reminders with a common key that are due, and a limit for the key and for the type.
func catRig(t *testing.T, n, narrow, whole int) (*rig, *bank) {
	b := newBank()
	b.most[narrowLimit], b.most[catLimit] = narrow, whole
	r := newRig(t, partition.Config{Limiter: b})
	for i := range n {
		r.mustPut(carillon.Job{Name: fmt.Sprint("dapr/actor/cat/1/", i),
			Due: carillon.At(time.Unix(0, epoch-int64(n-i))), FailurePolicy: carillon.Drop(),
			Target: carillon.Target{Dapr: &carillon.DaprTarget{AppID: "x", ActorType: "cat", ActorID: "1",
				ConcurrencyKey: "n"}}})
	}
	r.flush()
	return r, b
}

// hand gives n slots to the partition, after it was told of free permits.
func (r *rig) hand(b *bank, n int) []delivery.Delivery {
	for l, want := range b.waits {
		if free := min(want, b.free(l.Limit)); free > 0 {
			delete(b.waits, l)
			r.m.Promote(r.now, l, free)
		}
	}
	r.m.Deliver(nil, r.now, queueCat, n, false, nil)
	r.m.Permits.ReturnUnused()
	ds, _ := r.granted()
	return ds
}

func TestTheTallyOfALimit(t *testing.T) {
	r, b := catRig(t, 5, 2, 1)
	ds := r.hand(b, 9)
	tallies := func() string {
		return fmt.Sprintf("%+v", r.m.Permits.Tallies(func(l delivery.Limit) bool { return b.most[l] > 0 }))
	}
	want := fmt.Sprintf("%+v", []partition.Tally{{Limit: catLimit, InForce: 1, Waiting: 1, Throttled: 1},
		{Limit: narrowLimit, InForce: 1, Waiting: 3, Throttled: 3}})
	if got := tallies(); got != want {
		t.Fatalf("%s, not %s", got, want)
	}
	if got, want := r.m.Permits.InLine(), []partition.InLine{{Queue: queueCat, N: 4,
		Oldest: epoch - 4}}; !slices.Equal(got, want) {
		t.Errorf("%+v wait, not %+v", got, want)
	}
	for len(ds) > 0 {
		r.succeed(ds[0])
		r.flush()
		ds = r.hand(b, 9)
	}
	want = fmt.Sprintf("%+v", []partition.Tally{{Limit: catLimit, Throttled: 3}, {Limit: narrowLimit}})
	if got := tallies(); got != want {
		t.Errorf("%s, not %s", got, want)
	}
	clear(b.most)
	if got := tallies(); got != "[]" {
		t.Errorf("limits that are gone: %s", got)
	}
}

// TestTheTallyOutlivesTheOwner: a new one begins with what it finds in force.
func TestTheTallyOutlivesTheOwner(t *testing.T) {
	r, b := catRig(t, 3, 2, 2)
	ds := r.hand(b, 9)
	r.m.Attempts.HandOver(r.now)
	r.flush()
	r.start()
	b.recharge(r.held)
	if len(r.held) != 4 || b.inForce[catLimit] != 2 || b.inForce[narrowLimit] != 2 {
		t.Fatalf("held: %v", r.held)
	}
	r.step()
	all := r.m.Permits.Tallies(func(delivery.Limit) bool { return true })
	if len(all) != 2 || slices.ContainsFunc(all, func(t partition.Tally) bool { return t.InForce != 2 }) {
		t.Errorf("%+v", all)
	}
	for _, d := range ds {
		r.succeed(d)
	}
	r.flush()
	if b.inForce[catLimit] != 0 || b.inForce[narrowLimit] != 0 {
		t.Errorf("permits left: %v", b.inForce)
	}
}
