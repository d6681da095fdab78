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
