package partition_test

import (
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

func edgeOf(of, name string) message.Dependency {
	return message.Dependency{Of: keyOf(of), Name: name}
}

func TestASuccessIsToldOnlyOnceItIsDurable(t *testing.T) {
	w := newRelay(t, partition.Config{})
	w.setUp(carillon.Job{Schedule: "@every 2s"})
	w.trigger("a")
	w.flush()
	w.succeed(w.deliver(1)[0])
	w.take() // on its way
	if l := w.m.Dependencies.Notices(w.now, 10); len(l) != 0 {
		t.Fatalf("told before it is durable: %+v", l)
	}
	w.flush()
	l := w.m.Dependencies.Notices(w.now, 10)
	if len(l) != 1 || l[0].Dependency != edgeOf("a", "d") || len(w.small(store.KindNotice)) != 1 {
		t.Fatalf("letters %+v", l)
	}
	if again := w.m.Dependencies.Notices(w.now, 10); len(again) != 0 {
		t.Fatalf("told again while the answer is on its way: %+v", again)
	}
	w.m.Dependencies.Answered(w.now, l[0], message.Taken)
	w.flush()
	if left := w.small(store.KindNotice); len(left) != 0 {
		t.Fatalf("left: %v", left)
	}
}

func TestADependencyIsKeptWhileItsPutMayCome(t *testing.T) {
	w := newRelay(t, partition.Config{})
	w.register("a", "d")
	w.advance(50 * time.Second)
	w.register("a", "d")
	w.advance(50 * time.Second)
	if w.m.Dependencies.Forget(w.now, edgeOf("a", "d")) {
		t.Fatal("forgotten 50 s after it was registered again")
	}
	w.start()
	w.advance(50 * time.Second)
	if w.m.Dependencies.Forget(w.now, edgeOf("a", "d")) {
		t.Fatal("forgotten 50 s after a restart")
	}
	w.advance(10 * time.Second)
	if !w.m.Dependencies.Forget(w.now, edgeOf("a", "d")) {
		t.Fatal("not forgotten")
	}
	w.flush()
	if left := w.small(store.KindDependency); len(left) != 0 {
		t.Fatalf("left: %v", left)
	}
}

// TestARunHandedOutIsNotBegunAnewAfterACrash: the successes that it has used up do not start a run for
// a later time.
func TestARunHandedOutIsNotBegunAnewAfterACrash(t *testing.T) {
	w := newRelay(t, partition.Config{})
	w.setUp(carillon.Job{Schedule: "@every 2s"})
	for _, name := range []string{"a", "b"} {
		w.trigger(name)
		w.flush()
		w.succeed(w.deliver(1)[0])
		w.flush()
		w.Collect(nil)
		w.hand(true)
	}
	w.advance(2 * time.Second)
	first := w.deliver(1)[0]
	w.now += int64(10 * time.Second)
	w.start() // the attempt was not durable yet, and newer times have come
	w.flush()
	if again := w.deliver(1); len(again) != 1 || again[0].Run.ID != first.Run.ID {
		t.Fatalf("delivered %+v after %+v", again, first)
	}
}

// TestAOneShotThatRunsWaitsForNobody: its successes are used up, but that would only hold up a next run.
func TestAOneShotThatRunsWaitsForNobody(t *testing.T) {
	for schedule, want := range map[string]int{"": 0, "@every 2s": 2} {
		w := newRelay(t, partition.Config{})
		w.setUp(carillon.Job{Schedule: schedule})
		w.advance(2 * time.Second)
		if j := w.job("d"); len(j.Status.Waiting) != 2 {
			t.Fatalf("%q: waiting for %v", schedule, j.Status.Waiting)
		}
		for _, name := range []string{"a", "b"} {
			w.trigger(name)
			w.flush()
			w.succeed(w.deliver(1)[0])
			w.flush()
			w.Collect(nil)
			w.hand(true)
		}
		if ds := w.deliver(1); len(ds) != 1 || ds[0].Run.Job != "d" {
			t.Fatalf("%q: delivered %+v", schedule, ds)
		}
		w.flush()
		if j := w.job("d"); j.Status.Current == nil || len(j.Status.Waiting) != want {
			t.Fatalf("%q: runs %v, waiting for %v", schedule, j.Status.Current, j.Status.Waiting)
		}
	}
}

// TestARunBesideAnotherWaitsToo covers OverlapAllow and OverlapReplace.
func TestARunBesideAnotherWaitsToo(t *testing.T) {
	for _, overlap := range []carillon.Overlap{carillon.OverlapAllow, carillon.OverlapReplace} {
		w := newRelay(t, partition.Config{})
		w.setUp(carillon.Job{Schedule: "@every 2s", Overlap: overlap})
		round := func() []delivery.Delivery {
			for _, name := range []string{"a", "b"} {
				w.trigger(name)
				w.flush()
				w.succeed(w.deliver(1)[0])
				w.flush()
				w.Collect(nil)
				w.hand(true)
			}
			w.advance(4 * time.Second)
			return w.deliver(10)
		}
		if ds := round(); len(ds) != 1 {
			t.Fatalf("%v: %d runs", overlap, len(ds))
		}
		w.advance(10 * time.Second)
		if ds := w.deliver(10); len(ds) != 0 {
			t.Fatalf("%v: %d runs without successes", overlap, len(ds))
		}
		if ds := round(); len(ds) != 1 {
			t.Fatalf("%v: %d runs after another round", overlap, len(ds))
		}
	}
}

// TestNoticesAreInOrderOverTerms: those of a later term count, however few it has sent, also where terms
// differ in the upper half of their epochs alone, as after the restart of a node with a store of its own.
func TestNoticesAreInOrderOverTerms(t *testing.T) {
	w := newRelay(t, partition.Config{})
	w.mustPut(carillon.Job{Name: "a", Schedule: "@yearly"})
	w.mustPut(carillon.Job{Name: "d", Schedule: "@yearly", DependsOn: []string{"a"}})
	const boot = 1 << 32
	for _, c := range []struct {
		of    message.Stamp
		by    uint64
		newer bool
	}{
		{message.Stamp{Epoch: boot + 1, N: 9}, 1, true}, {message.Stamp{Epoch: boot + 1, N: 8}, 2, false},
		{message.Stamp{Epoch: 2*boot + 1, N: 1}, 3, true}, {message.Stamp{Epoch: boot + 1, N: 10}, 4, false},
		{message.Stamp{}, 5, true}, {message.Stamp{Epoch: 2*boot + 1, N: 2}, 6, true},
	} {
		w.bring(keyOf("d"))
		w.m.Jobs.Release(message.Notice{Dependency: edgeOf("a", "d"), By: store.RunID{Seq: c.by}, Stamp: c.of})
		w.commit()
		records := w.jobs()
		i := slices.IndexFunc(records, func(r store.Record) bool { return r.Name == "d" })
		if got := records[i].State.Waits[0].By.Seq == c.by; got != c.newer {
			t.Errorf("%+v: taken %v, want %v", c.of, got, c.newer)
		}
	}
}
