package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store/memory"
)

// left is a run that has left.
type left struct {
	class string
	at    time.Time
}

// outage puts jobs of three priorities that fall due while the store is away for a minute, and returns in
// which order their runs leave afterwards, and when it was back.
func outage(t *testing.T, rate, slots int, work time.Duration, n map[carillon.Priority]int) (all []left, back time.Time) {
	t.Helper()
	l := &landlord{Store: memory.New(memory.Options{Partitions: 8})}
	e := startWith(t, engine.Config{Store: l, LeaseTTL: 4 * time.Second, CatchUpRate: rate})
	total := 0
	for class, count := range n {
		for i := range count {
			total++
			if _, err := e.PutJob(context.Background(), carillon.Job{Name: fmt.Sprintf("%v/%d", class, i), Priority: class,
				Due: carillon.In(20*time.Second + time.Duration(i)*time.Millisecond), Target: carillon.WorkerQueue("q")}); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.set(errors.New("out of reach"), false)
	time.Sleep(time.Minute)
	var mu sync.Mutex
	e.consume("q", slots, func(r carillon.Run) *carillon.Result {
		class, _, _ := strings.Cut(r.Job, "/")
		mu.Lock()
		all = append(all, left{class, time.Now()})
		mu.Unlock()
		time.Sleep(work)
		return success(r)
	})
	time.Sleep(time.Second)
	synctest.Wait()
	if len(all) > 0 {
		t.Errorf("%d runs left while the store was away", len(all))
	}
	l.set(nil, false)
	back = time.Now()
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	e.stop()
	if len(all) != total {
		t.Fatalf("%d of %d runs", len(all), total)
	}
	return all, back
}

// TestCriticalRunsComeFirst after an outage, of all partitions, then normal ones, then low ones.
func TestCriticalRunsComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := outage(t, 0, 4, time.Millisecond, map[carillon.Priority]int{carillon.PriorityCritical: 40,
			carillon.PriorityNormal: 200, carillon.PriorityLow: 400})
		var order []string
		for _, x := range all {
			order = append(order, x.class)
		}
		if last, first := lastOf(order, "critical"), slices.Index(order, "normal"); last > first {
			t.Errorf("the last critical run is number %d, the first normal one number %d", last, first)
		}
		if last, first := lastOf(order, "normal"), slices.Index(order, "low"); last > first {
			t.Errorf("the last normal run is number %d, the first low one number %d", last, first)
		}
	})
}

func lastOf(all []string, what string) int {
	at := -1
	for i, x := range all {
		if x == what {
			at = i
		}
	}
	return at
}

// TestTheRestFollowsByARate: critical runs leave at once, whatever the rate.
func TestTheRestFollowsByARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = 20
		all, back := outage(t, rate, 1000, 0, map[carillon.Priority]int{carillon.PriorityCritical: 300,
			carillon.PriorityNormal: 100, carillon.PriorityLow: 300})
		bounded := 0
		var low, normal []time.Duration
		for _, x := range all {
			d := x.at.Sub(back)
			switch x.class {
			case "critical":
				if d > 2*time.Second {
					t.Errorf("a critical run left %v after the store was back", d)
				}
				continue
			case "low":
				low = append(low, d)
			case "normal":
				normal = append(normal, d)
			}
			if bounded++; float64(bounded) > rate*d.Seconds()+1 {
				t.Fatalf("%d runs left in %v, by %d a second", bounded, d, rate)
			}
		}
		if took := slices.Max(low); took > 2*400/rate*time.Second {
			t.Errorf("the last one left after %v", took)
		}
		if slices.Max(normal) > slices.Min(low)+time.Second {
			t.Errorf("the last normal run left after %v, the first low one after %v", slices.Max(normal), slices.Min(low))
		}
	})
}

// caughtUp is an engine with a store that can be away, and when runs of each job left.
type caughtUp struct {
	t *testing.T
	l *landlord
	e *node

	mu   sync.Mutex
	left map[string]time.Time
}

func newCaughtUp(t *testing.T, rate int) *caughtUp {
	l := &landlord{Store: memory.New(memory.Options{Partitions: 4})}
	return &caughtUp{t: t, l: l, left: map[string]time.Time{},
		e: startWith(t, engine.Config{Store: l, LeaseTTL: 4 * time.Second, CatchUpRate: rate})}
}

// put puts n jobs of a queue, named after it and their priority.
func (c *caughtUp) put(queue string, class carillon.Priority, n int, after time.Duration) {
	for i := range n {
		if _, err := c.e.PutJob(context.Background(), carillon.Job{Name: fmt.Sprintf("%s/%v/%d/%v", queue, class, i, after),
			Priority: class, Due: carillon.In(after), Target: carillon.WorkerQueue(queue)}); err != nil {
			c.t.Fatal(err)
		}
	}
}

// consume gives a queue slots. Each run has a result at once, or none.
func (c *caughtUp) consume(queue string, slots int, ends bool) {
	c.e.consume(queue, slots, func(r carillon.Run) *carillon.Result {
		c.mu.Lock()
		c.left[r.Job] = time.Now()
		c.mu.Unlock()
		if !ends {
			return nil
		}
		return success(r)
	})
}

// outage lets the store be away for a time.
func (c *caughtUp) outage(d time.Duration) {
	c.l.set(errors.New("out of reach"), false)
	time.Sleep(d)
	c.l.set(nil, false)
}

// count returns how many runs have left of the jobs whose names begin so.
func (c *caughtUp) count(prefix string) (n int) {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.left {
		if strings.HasPrefix(name, prefix) {
			n++
		}
	}
	return n
}

// forgetNew forgets the runs that were due when they were put, and returns how many there were of the jobs
// whose names begin so.
func (c *caughtUp) forgetNew(prefix string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.left {
		if !strings.HasSuffix(name, "/0s") {
			continue
		}
		if strings.HasPrefix(name, prefix) {
			n++
		}
		delete(c.left, name)
	}
	return n
}

// TestAQueueWithoutSlotsHoldsNothingUp: the rate is for what leaves, not for what waits for its consumers.
func TestAQueueWithoutSlotsHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCaughtUp(t, 10)
		c.put("full", carillon.PriorityHigh, 200, 10*time.Second)
		c.put("free", carillon.PriorityLow, 100, 10*time.Second)
		c.consume("full", 1, false)
		c.outage(30 * time.Second)
		c.consume("free", 100, true)
		time.Sleep(20 * time.Second)
		if n := c.count("free"); n < 80 {
			t.Errorf("%d low runs left in 20 s, by 10 a second, beside a queue without slots", n)
		}
		c.e.stop()
	})
}

// TestNewRunsAreNotBounded by the rate of a catch-up, whatever is overdue; nor are critical ones, however
// long it takes.
func TestNewRunsAreNotBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCaughtUp(t, 2)
		c.put("q", carillon.PriorityNormal, 600, 10*time.Second)
		c.consume("q", 1000, true)
		c.outage(30 * time.Second)
		for _, later := range []time.Duration{10 * time.Second, 100 * time.Second} {
			time.Sleep(later)
			for _, class := range []carillon.Priority{carillon.PriorityCritical, carillon.PriorityNormal, carillon.PriorityLow} {
				c.put("q", class, 50, 0)
				time.Sleep(500 * time.Millisecond)
				if n := c.count(fmt.Sprintf("q/%v/", class)); class != carillon.PriorityNormal && n != 50 {
					t.Errorf("%v after the outage: %d new runs of priority %v left", later, n, class)
				}
			}
			if n := c.forgetNew("q/normal/"); n != 50 {
				t.Errorf("%v after the outage: %d new runs of priority normal left", later, n)
			}
		}
		if n := c.count("q/normal/"); n > 250 {
			t.Errorf("%d overdue runs left in 112 s by 2 a second", n)
		}
		c.e.stop()
	})
}

// TestWhatWaitedBeforeIsNotOverdue: a blip does not throttle a backlog that has nothing to do with it.
func TestWhatWaitedBeforeIsNotOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCaughtUp(t, 1)
		c.put("q", carillon.PriorityNormal, 100, 0)
		time.Sleep(10 * time.Second)
		c.outage(5 * time.Second)
		c.consume("q", 1000, true)
		time.Sleep(7 * time.Second)
		if n := c.count("q"); n != 100 {
			t.Errorf("%d of 100 runs left that had waited before", n)
		}
		c.e.stop()
	})
}
