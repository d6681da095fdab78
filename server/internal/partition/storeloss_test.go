package partition_test

import (
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// TestOnlyCriticalRunsLeave while the store does not answer, but for those that need something of it; and all
// of them afterwards.
func TestOnlyCriticalRunsLeave(t *testing.T) {
	r := newRig(t, partition.Config{})
	critical := carillon.PriorityCritical
	for _, j := range []carillon.Job{{Name: "critical", Priority: critical}, {Name: "normal"},
		{Name: "limited", Priority: critical, ConcurrencyKey: "k"},
		{Name: "recurring", Priority: critical, Schedule: "@every 1s"}} {
		j.Due, j.Target = carillon.At(time.Unix(0, r.now).Add(time.Second)), carillon.WorkerQueue("q")
		r.mustPut(j)
	}
	left := func() (names []string) {
		for _, d := range r.deliver(10) {
			names = append(names, d.Run.Job)
			if d.StoreAway != (d.Run.Metadata[delivery.StoreKey] == delivery.StoreIsAway) {
				t.Errorf("%s: %v and %v", d.Run.Job, d.StoreAway, d.Run.Metadata)
			}
		}
		slices.Sort(names)
		return names
	}
	r.m.OnlyCritical(true, true, r.now)
	r.advance(time.Second)
	if got := left(); !slices.Equal(got, []string{"critical", "recurring"}) {
		t.Errorf("left: %v", got)
	}
	// The ages of the others do not matter, nor that time passes: nothing becomes durable.
	r.now += int64(10 * time.Minute)
	r.m.Tick(r.now)
	if w := r.m.Window.AppendWaiting(nil, r.now); len(w) > 0 {
		t.Errorf("waiting: %+v", w)
	}
	r.m.OnlyCritical(false, false, r.now)
	r.flush()
	if got := left(); !slices.Contains(got, "normal") || !slices.Contains(got, "limited") {
		t.Errorf("left when the store was back: %v", got)
	}
}

// TestAMutedMachineTellsWhatLeaves, with its trace context, and not what ends.
func TestAMutedMachineTellsWhatLeaves(t *testing.T) {
	s, fired, ended := &spans{}, 0, 0
	r := newRig(t, partition.Config{Tracer: s, Events: partition.Events{
		Fired:    func(delivery.Fired) { fired++ },
		Finished: func(delivery.Finished) { ended++ },
	}})
	for _, name := range []string{"a", "b"} {
		r.mustPut(carillon.Job{Name: name})
	}
	r.m.Mute()
	ds := r.deliver(2)
	if len(ds) != 2 || fired != 2 || ds[0].Trace == "" {
		t.Fatalf("%d runs left, %d were told, with the context %q", len(ds), fired, ds[0].Trace)
	}
	r.succeed(ds[0])
	r.advance(10 * time.Minute) // the lease of the other ends
	if ended > 0 || len(s.ended) > 0 {
		t.Errorf("told: %d ends, %d spans", ended, len(s.ended))
	}
}
