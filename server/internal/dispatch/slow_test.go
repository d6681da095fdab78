package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

// TestSlowStart lets two partitions hand out a backlog through two queues, never more at a time than the
// bound.
func TestSlowStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const step = 2 * time.Second
		h, l := hub(Options{SlowStart: SlowStart{Initial: 4, Step: step, Most: 64}})
		began := time.Now()
		overdue := delivery.Head{Due: began.Add(-time.Minute).UnixNano()}
		a, b := join(t, h, "a"), join(t, h, "b")
		a.registration.Subscriptions[0].Grant(1000)
		b.registration.Subscriptions[0].Grant(1000)
		inFlight := 0
		for p, name := range []string{"a", "b"} {
			n, ok := take(h, p, named(name), 100, overdue)
			h.Deliver(p, runsOf(p, named(name), 0, n), nil)
			if inFlight += n; !ok {
				t.Fatal("not served")
			}
		}
		if inFlight != 4 {
			t.Fatalf("%d in flight at the start", inFlight)
		}
		more := func() {
			for _, r := range l.take() {
				p := r.p.Partition
				n, _ := take(h, p, r.q, 100, overdue)
				n += r.n
				h.Deliver(p, runsOf(p, r.q, inFlight, n), nil)
				inFlight += n
			}
		}
		a.registration.Subscriptions[0].Done(4, 4)
		inFlight -= 4
		if more(); inFlight != 4 {
			t.Fatalf("%d in flight after the first were done", inFlight)
		}
		for steps := 1; steps < 4; steps++ {
			<-time.After(step)
			synctest.Wait()
			if more(); inFlight != 4<<steps {
				t.Fatalf("%d in flight after %d steps, want %d", inFlight, steps, 4<<steps)
			}
		}
		<-time.After(step) // 64: no bound any more
		synctest.Wait()
		for range 10 {
			more()
		}
		if inFlight < 200 {
			t.Fatalf("%d in flight without a bound", inFlight)
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestSlowStartEndsWithTheBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := hub(Options{SlowStart: SlowStart{Initial: 4, Step: time.Second}})
		q, c := named("q"), join(t, h, "q")
		c.registration.Subscriptions[0].Grant(1000)
		old, fresh := delivery.Head{Due: time.Now().Add(-6 * time.Second).UnixNano()}, delivery.Head{Due: time.Now().UnixNano()}
		if n, _ := take(h, 1, q, 50, fresh); n != 50 {
			t.Fatalf("a node without a backlog is bounded to %d", n)
		}
		giveBack(h, 1, q, 50)
		if n, _ := take(h, 1, q, 50, old); n != 4 {
			t.Fatalf("took %d", n)
		}
		giveBack(h, 1, q, 4)
		take(h, 1, q, 0, delivery.Head{})
		<-time.After(2 * time.Second)
		synctest.Wait()
		if n, _ := take(h, 1, q, 50, fresh); n != 50 {
			t.Fatalf("still bounded to %d", n)
		}
	})
}

// TestATargetThatIsHungHasItsShare: of two queues with a backlog one ends nothing that it gets, and its runs are
// the most overdue. The other has its share of the bound all the same, and gives it back when it has ended.
func TestATargetThatIsHungHasItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const step, all = 2 * time.Second, 1 << 20
		h, l := hub(Options{SlowStart: SlowStart{Initial: 16, Step: step}})
		began := time.Now()
		hung, other := named("hung"), named("other")
		a, b := join(t, h, "hung"), join(t, h, "other")
		a.registration.Subscriptions[0].Grant(all)
		b.registration.Subscriptions[0].Grant(all)
		head := map[delivery.Queue]delivery.Head{hung: {Due: began.Add(-time.Hour).UnixNano()},
			other: {Due: began.Add(-time.Minute).UnixNano()}}
		inFlight, seq, over := map[delivery.Queue]int{}, 0, false
		deliver := func(q delivery.Queue, n int) {
			h.Deliver(1, runsOf(1, q, seq, n), nil)
			seq += n
			inFlight[q] += n
		}
		more := func() { // what it waited for, and then it wants more
			for rs := l.take(); len(rs) > 0; rs = l.take() {
				for _, r := range rs {
					if over && r.q == other {
						giveBack(h, 1, other, r.n)
						continue
					}
					deliver(r.q, r.n)
					n, _ := take(h, 1, r.q, all, head[r.q])
					deliver(r.q, n)
				}
			}
		}
		end := func() { // the other's end, before it wants more
			n := inFlight[other]
			inFlight[other] = 0
			b.registration.Subscriptions[0].Done(n, n)
		}
		lineup := []delivery.Waiting{{Queue: hung, N: all, Now: all, Head: head[hung]},
			{Queue: other, N: all, Now: all, Head: head[other]}}
		h.Offer(delivery.Owner{Partition: 1}, lineup)
		for _, w := range lineup {
			deliver(w.Queue, w.Slots.N)
		}
		for steps, bound := 0, 16; steps < 5; steps, bound = steps+1, 2*bound {
			more()
			for range 3 {
				if got := inFlight[other]; got < bound/4 || inFlight[hung] != bound-got {
					t.Fatalf("after %d steps %d of %d are in flight, and %d of the queue that is hung",
						steps, got, bound, inFlight[hung])
				}
				if c := h.Look(hung); c.Bound != bound || c.Bounded != bound {
					t.Errorf("it waits for another reason: %+v", c)
				}
				end()
				n, _ := take(h, 1, other, all, head[other])
				deliver(other, n)
				more()
			}
			<-time.After(step)
			synctest.Wait()
		}
		over = true // the other wants no more
		take(h, 1, other, 0, delivery.Head{})
		end()
		more()
		if c := h.Look(hung); !c.Shared || c.Bounded >= c.Bound {
			t.Errorf("the other keeps its share for a while: %+v", c)
		}
		for range sharingSteps + 1 {
			<-time.After(step)
			synctest.Wait()
			more()
		}
		if c := h.Look(hung); c.InFlight < c.Bound {
			t.Errorf("the other has ended, and %d of %d are in flight", c.InFlight, c.Bound)
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestMoreQueuesThanTheBound: each has one at a time, and the bound holds.
func TestMoreQueuesThanTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := hub(Options{SlowStart: SlowStart{Initial: 4, Step: time.Second}})
		overdue := delivery.Head{Due: time.Now().Add(-time.Minute).UnixNano()}
		var lineup []delivery.Waiting
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			join(t, h, name).registration.Subscriptions[0].Grant(100)
			lineup = append(lineup, delivery.Waiting{Queue: named(name), N: 9, Now: 9, Head: overdue})
		}
		h.Offer(delivery.Owner{Partition: 1}, lineup)
		for i, w := range lineup {
			if want := max(0, min(1, 4-i)); w.Slots.N != want {
				t.Errorf("%s has %d slots, not %d", w.Queue, w.Slots.N, want)
			}
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
