package scenario_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

// misfireAfter is how late a time may be and still run as if nothing had been.
const misfireAfter = 5 * time.Second

// S05: all nodes are killed while 5,000 one-shots and 48 recurring jobs fall due, and come back together. All
// one-shots run, and recurring jobs make up for what they missed as they say; what begins grows slowly.
func TestS05AllNodesDown(t *testing.T) {
	inCity(t, 3, func(t *testing.T, c *city) {
		n := count(5_000)
		every := max(span(10*time.Second).Round(time.Second), time.Second)
		t0, down := time.Now().Add(lead), 6*every
		rules := []carillon.MisfireRule{carillon.MisfireAll, carillon.MisfireLatest, carillon.MisfireSkip}
		jobs := spread(n, t0.Add(every/2), down-every)
		for i := range 48 {
			jobs = append(jobs, carillon.Job{Name: fmt.Sprintf("%v/%d", rules[i%3], i),
				Schedule: "@every " + every.String(), Due: carillon.At(t0.Add(every)),
				Misfire: carillon.Misfire{Rule: rules[i%3]}})
		}
		c.load(jobs)
		for _, m := range c.nodes {
			must(t, m.Kill())
		}
		if time.Now().After(t0) {
			t.Fatal("the machine is too slow: jobs were due before the nodes were dead")
		}
		var now, most atomic.Int64
		c.at(t0.Add(down))
		back := time.Now()
		for _, m := range c.nodes {
			must(t, m.Start())
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		must(t, c.Ready(ctx))
		c.staff(1_000, func(context.Context, carillon.Run) error {
			most.Store(max(most.Load(), now.Add(1))) // about: it is held against a bound that is far off
			defer now.Add(-1)
			time.Sleep(20 * time.Millisecond) // the work
			return nil
		})
		c.await("all one-shots have run", func() bool { return c.jobs("one/") == n })
		drained := time.Since(back)
		if drained > 120*time.Second {
			t.Errorf("the herd took %v", drained)
		}
		c.await("all recurring jobs are up to date", func() bool { return c.upToDate(t0.Add(down)) })
		c.early()
		for id, ds := range c.byRun() {
			if len(ds) > 1 {
				t.Errorf("%s of %s was delivered %d times", id, ds[0].Job, len(ds))
			}
		}
		for i := range 48 {
			c.madeUp(fmt.Sprintf("%v/%d", rules[i%3], i), rules[i%3], t0, every, back)
		}
		t.Logf("drained %v after the start, at most %d at a time", drained, most.Load())
	})
}

// upToDate reports whether all recurring jobs have run a time that is not before an instant.
func (c *city) upToDate(at time.Time) bool {
	seen := map[string]bool{}
	for _, d := range c.ledger() {
		if !strings.HasPrefix(d.Job, "one/") && !d.Scheduled.Before(at) {
			seen[d.Job] = true
		}
	}
	return len(seen) == 48
}

// madeUp checks what a recurring job that is up to date has run of the times that nobody was there for. The
// latest of these is the last one before its partition has an owner again, which is later than t0+6*every on a
// slow machine.
func (c *city) madeUp(job string, rule carillon.MisfireRule, t0 time.Time, every time.Duration,
	back time.Time) {
	c.t.Helper()
	var got []time.Time
	for _, d := range c.ledger() {
		if d.Job == job {
			got = append(got, d.Scheduled)
		}
	}
	if !slices.IsSortedFunc(got, time.Time.Compare) {
		c.t.Errorf("%s made up for its times in the order %v", job, got)
	}
	switch missed := t0.Add(every).Before(back.Add(-misfireAfter)); {
	case rule == carillon.MisfireAll && (!got[0].Equal(t0.Add(every)) || !got[5].Equal(t0.Add(6*every))):
		c.t.Errorf("%s made up for %v, want all 6 times since %v", job, got, t0)
	case rule == carillon.MisfireLatest && missed && !got[0].After(back.Add(-every)):
		c.t.Errorf("%s made up for %v first, which was not the latest of those that were missed at %v", job, got[0],
			back)
	case rule == carillon.MisfireSkip && got[0].Before(back.Add(-misfireAfter)):
		c.t.Errorf("%s made up for what it was to skip: %v before the start", job, back.Sub(got[0]))
	}
}
