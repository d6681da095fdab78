package partition_test

import (
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// TestOverdueRunsWaitApart: within the bound, of one priority, beside what became due later and critical runs,
// which go first whatever has aged; and as ever when the catch-up is over.
func TestOverdueRunsWaitApart(t *testing.T) {
	r := newRig(t, partition.Config{})
	put := func(name string, class carillon.Priority, after time.Duration) {
		r.mustPut(carillon.Job{Name: name, Priority: class, Due: carillon.At(time.Unix(0, r.now).Add(after)),
			Target: carillon.WorkerQueue("q")})
	}
	left := func(n int, b *partition.Bound) (names []string) {
		ds, _ := r.m.Deliver(nil, r.now, queueQ, n, false, b)
		for _, d := range ds {
			names = append(names, d.Run.Job)
		}
		return names
	}
	put("before", carillon.PriorityNormal, time.Second)
	r.advance(2 * time.Second)
	since := r.now
	for _, name := range []string{"normal 1", "normal 2", "normal 3"} {
		put(name, carillon.PriorityNormal, time.Second)
	}
	put("low", carillon.PriorityLow, time.Second)
	r.advance(10 * time.Minute)
	put("critical", carillon.PriorityCritical, 0)
	r.advance(time.Second)
	before := r.now
	put("new", carillon.PriorityLow, 0)
	r.advance(time.Second)

	r.m.Queues.CatchUp(since, before)
	w := r.m.Window.AppendWaiting(nil, r.now)
	if len(w) != 1 || w[0].N != 7 || w[0].Head.Priority != carillon.PriorityCritical.Rank() || w[0].Overdue.N != 5 {
		t.Fatalf("waiting: %+v", w)
	}
	b := &partition.Bound{Rank: carillon.PriorityNormal.Rank(), N: 2}
	if got, want := left(1, b), []string{"critical"}; !slices.Equal(got, want) || b.N != 2 {
		t.Errorf("left first: %v, and %d of the bound; want %v", got, b.N, want)
	}
	got := left(10, b)
	if slices.Sort(got); !slices.Equal(got, []string{"before", "new", "normal 1", "normal 2"}) || b.N != 0 {
		t.Errorf("left then: %v, and %d of the bound", got, b.N)
	}
	b.N = 9
	if got := left(10, b); !slices.Equal(got, []string{"normal 3"}) || b.N != 8 {
		t.Errorf("left of one priority: %v, and %d of the bound", got, b.N)
	}
	if w := r.m.Window.AppendWaiting(nil, r.now); len(w) != 1 || w[0].Overdue.N != 1 ||
		w[0].Overdue.Head.Priority != carillon.PriorityLow.Rank() {
		t.Errorf("waiting: %+v", w)
	}
	r.m.Queues.CatchUp(0, 0)
	if got := left(10, nil); !slices.Equal(got, []string{"low"}) {
		t.Errorf("left afterwards: %v", got)
	}
}
