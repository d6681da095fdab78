package scenario_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

// A worker that never reads is dropped; its runs go to others after their lease, and nobody else is held up.
func TestDaprDeadStream(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		deaf, err := w.node.hub.Connect(t.Context(), carillon.Hello{Queues: []string{"q"}, WorkerID: "deaf"})
		if err != nil {
			t.Fatal(err)
		}
		if err := deaf.Send(t.Context(), carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: 10}}}); err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			w.put(carillon.Job{Name: fmt.Sprint("stuck/", i), Lease: 10 * time.Second})
		}
		sleep(time.Second)
		w.work("living", done)
		w.connect("other", hello{queues: []string{"elsewhere"}}, done)
		w.put(carillon.Job{Name: "elsewhere", Target: carillon.WorkerQueue("elsewhere")})
		sleep(time.Second)
		if n := len(w.deliveries("elsewhere")); n != 1 {
			t.Errorf("another queue was held up: %d", n)
		}
		sleep(time.Minute)
		if n := len(w.deliveries("")); n != 11 {
			t.Errorf("%d deliveries, want 11", n)
		}
		w.empty()
	})
}

// A slot that its run leaves without a result is free again: the worker that goes frees what it holds.
func TestDaprConcurrencyDisconnectAndFailed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		first := w.connect("first", hello{queues: []string{"q"}, credits: 1}, never)
		for i := range 3 {
			w.put(carillon.Job{Name: fmt.Sprint("job/", i)})
		}
		sleep(time.Second)
		first.send(carillon.WorkRequest{Goodbye: true})
		sleep(time.Second)
		tries := 0
		w.connect("second", hello{queues: []string{"q"}, credits: 1}, func(r carillon.Run) []carillon.Result {
			if tries++; tries == 1 {
				return fails(r)
			}
			return done(r)
		})
		sleep(time.Minute)
		if n := len(w.deliveries("")); n != 5 {
			t.Errorf("%d deliveries, want one to the first worker, a failure and three successes", n)
		}
		w.empty()
	})
}

// Runs of several queues do not take each other's slots.
func TestDaprConcurrencyIndependent(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.connect("slow", hello{queues: []string{"slow"}, credits: 1}, never)
		w.connect("fast", hello{queues: []string{"fast"}, credits: 1}, done)
		for i := range 20 {
			w.put(carillon.Job{Name: fmt.Sprint("slow/", i), Target: carillon.WorkerQueue("slow")})
			w.put(carillon.Job{Name: fmt.Sprint("fast/", i), Target: carillon.WorkerQueue("fast")})
		}
		sleep(5 * time.Second)
		n := map[string]int{}
		for _, d := range w.deliveries("") {
			n[d.Worker]++
		}
		if n["slow"] != 1 || n["fast"] != 20 {
			t.Errorf("deliveries %v", n)
		}
	})
}

// Of runs that wait for room the most overdue goes first.
func TestDaprConcurrencySeniority(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.connect("worker", hello{queues: []string{"q"}, credits: 1}, func(r carillon.Run) []carillon.Result {
			time.Sleep(500 * time.Millisecond)
			return done(r)
		})
		w.put(carillon.Job{Name: "0 goes on"})
		for i := range 10 {
			w.put(carillon.Job{Name: fmt.Sprint("1 waits ", 9-i),
				Due: carillon.In(time.Duration(10+9-i) * 10 * time.Millisecond)})
		}
		sleep(time.Minute)
		var order []string
		for _, d := range w.deliveries("") {
			order = append(order, d.Job)
		}
		if len(order) != 11 || !slices.IsSorted(order) {
			t.Errorf("order %v", order)
		}
	})
}

// Staged jobs survive a restart with nobody there.
func TestDaprStagingDurable(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for i := range 40 {
			w.put(carillon.Job{Name: fmt.Sprint("job/", i)})
		}
		for range 3 {
			sleep(5 * time.Second)
			w.kill()
			w.start()
		}
		sleep(5 * time.Second)
		w.work("worker", done)
		sleep(5 * time.Second)
		seen := map[string]int{}
		for _, d := range w.deliveries("") {
			seen[d.Job] += d.Attempt
		}
		if len(seen) != 40 || len(w.deliveries("")) != 40 {
			t.Errorf("%d jobs in %d deliveries", len(seen), len(w.deliveries("")))
		}
		w.empty()
	})
}

// A worker that comes back gets what was staged while it was away.
func TestDaprStagingReconnect(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for round := range 3 {
			k := w.work("worker", done)
			w.put(carillon.Job{Name: fmt.Sprint("while there/", round)})
			sleep(time.Second)
			k.send(carillon.WorkRequest{Goodbye: true})
			k.crash()
			w.put(carillon.Job{Name: fmt.Sprint("while away/", round)})
			sleep(5 * time.Second)
		}
		if n := len(w.deliveries("")); n != 5 {
			t.Errorf("%d deliveries before the last return, want 5", n)
		}
		w.work("worker", done)
		sleep(time.Second)
		if n := len(w.deliveries("")); n != 6 {
			t.Errorf("%d deliveries", n)
		}
		w.empty()
	})
}

// The store is unavailable while runs are in force: nothing is lost and all goes on when it is back.
func TestDaprTriggerStall(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		release := make(chan struct{})
		w.work("worker", func(r carillon.Run) []carillon.Result { <-release; return done(r) })
		for i := range 10 {
			w.put(carillon.Job{Name: fmt.Sprint("job/", i)})
		}
		sleep(2 * time.Second)
		w.node.wire.refuse.Store(true)
		close(release)
		sleep(20 * time.Second)
		w.node.wire.refuse.Store(false)
		sleep(10 * time.Second)
		if n := len(w.deliveries("")); n != 10 {
			t.Errorf("%d deliveries of 10 runs", n)
		}
		w.empty()
	})
}

// How often a run is delivered by policy when all, the first, the second or the third attempts fail.
func TestDaprFailurePolicyUnset(t *testing.T) {
	for name, test := range map[string]struct {
		fail func(n int) bool
		want int
	}{
		"all fail":    {func(int) bool { return true }, 4},
		"first fails": {func(n int) bool { return n == 1 }, 2},
		"two fail":    {func(n int) bool { return n <= 2 }, 3},
		"three fail":  {func(n int) bool { return n <= 3 }, 4},
		"none fails":  {func(int) bool { return false }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				n := 0
				w.connect("worker", hello{queues: []string{"q"}, credits: 1}, func(r carillon.Run) []carillon.Result {
					if n++; test.fail(n) {
						return fails(r)
					}
					return done(r)
				})
				w.put(carillon.Job{Name: "job", Schedule: "@every 1m", Repeats: 1})
				sleep(time.Hour)
				if n != test.want {
					t.Errorf("%d deliveries, want %d", n, test.want)
				}
				w.empty()
			})
		})
	}
}
