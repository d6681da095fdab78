package scenario_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/link"
)

// S18, as far as nodes without the store go: no node reaches the store while critical, normal and low jobs
// fall due. Then all run, with the times that they were meant for: the critical ones first, and the low ones
// last.
func TestS18StoreAway(t *testing.T) {
	beside(t, 3, func(t *testing.T, c *city) {
		for i := range c.nodes {
			linked(t, c, i)
		}
		classes := []struct {
			class carillon.Priority
			n     int
		}{{carillon.PriorityCritical, 60}, {carillon.PriorityNormal, 540}, {carillon.PriorityLow, 2400}}
		t0, away := time.Now().Add(lead), max(span(60*time.Second), leaseEnds)
		due := map[string]time.Time{}
		var jobs []carillon.Job
		for _, k := range classes {
			for i := range k.n {
				j := carillon.Job{Name: fmt.Sprintf("%v/%d", k.class, i), Priority: k.class}
				due[j.Name] = t0.Add(time.Second + time.Duration(i)*(away-2*time.Second)/time.Duration(k.n)).Round(time.Millisecond)
				j.Due = carillon.At(due[j.Name])
				jobs = append(jobs, j)
			}
		}
		c.load(jobs)
		c.at(t0)
		for _, m := range c.nodes {
			m.Back.Cut(link.Silent)
		}
		c.at(t0.Add(away))
		for _, m := range c.nodes {
			m.Back.Heal()
		}
		back := time.Now()
		c.staff(2, func(context.Context, carillon.Run) error {
			time.Sleep(3 * time.Millisecond) // the work: there is not room for all at once
			return nil
		})
		c.await("all jobs have run", func() bool { return len(c.byRun()) == len(jobs) })
		c.early()
		at := map[string][]time.Duration{}
		for _, ds := range c.byRun() {
			if !ds[0].Scheduled.Equal(due[ds[0].Job]) {
				t.Errorf("%s was meant for %v and says %v", ds[0].Job, due[ds[0].Job], ds[0].Scheduled)
			}
			class, _, _ := strings.Cut(ds[0].Job, "/")
			at[class] = append(at[class], ds[0].At.Sub(back))
		}
		var middle []time.Duration
		for _, k := range classes {
			middle = append(middle, quantile(at[k.class.String()], 0.5))
			t.Logf("%v: %d runs, from %v to %v, half by %v", k.class, len(at[k.class.String()]),
				quantile(at[k.class.String()], 0), quantile(at[k.class.String()], 1),
				quantile(at[k.class.String()], 0.5))
		}
		if !slices.IsSorted(middle) {
			t.Errorf("half of each class had run after %v: not critical, normal, low", middle)
		}
		if last, low := quantile(at[carillon.PriorityCritical.String()],
			1), quantile(at[carillon.PriorityLow.String()], 0.5); last > low {
			t.Errorf("the last critical run came after %v, half of the low ones after %v", last, low)
		}
	})
}

// S18 with --on-store-loss critical: no node gets an answer from the store while critical and normal jobs fall
// due. The critical ones run meanwhile, 99 % of them within 5 s, and no other does; then the others run. Each
// has run once, with the time that it was meant for.
func TestS18CriticalRunsLeaveWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	away := max(span(60*time.Second), leaseEnds)
	leaseTTL := 2 * away
	inCity(t, 3, func(t *testing.T, c *city) {
		for i := range c.nodes {
			linked(t, c, i)
		}
		t0 := time.Now().Add(lead)
		due := map[string]time.Time{}
		var jobs []carillon.Job
		for class, n := range map[carillon.Priority]int{carillon.PriorityCritical: 100, carillon.PriorityNormal: 300,
			carillon.PriorityLow: 300} {
			for i := range n {
				j := carillon.Job{Name: fmt.Sprintf("%v/%d", class, i), Priority: class}
				due[j.Name] = t0.Add(time.Second + time.Duration(i)*(away-4*time.Second)/time.Duration(n)).Round(time.Millisecond)
				j.Due = carillon.At(due[j.Name])
				jobs = append(jobs, j)
			}
		}
		c.load(jobs)
		c.staff(3, func(context.Context, carillon.Run) error { return nil })
		c.at(t0)
		for _, m := range c.nodes {
			m.Back.Cut(link.Silent)
		}
		c.at(t0.Add(away))
		back := time.Now()
		for _, m := range c.nodes {
			m.Back.Heal()
		}
		c.await("all jobs have run", func() bool { return len(c.byRun()) == len(jobs) })
		c.early()
		var late []time.Duration
		again, meanwhile := 0, 0
		for _, ds := range c.byRun() {
			class, _, _ := strings.Cut(ds[0].Job, "/")
			if !ds[0].Scheduled.Equal(due[ds[0].Job]) {
				t.Errorf("%s was meant for %v and says %v", ds[0].Job, due[ds[0].Job], ds[0].Scheduled)
			}
			if again += len(ds) - 1; class == carillon.PriorityCritical.String() {
				late = append(late, ds[0].At.Sub(due[ds[0].Job]))
				continue
			}
			// What the nodes did not know yet: they find out within a write and a renewal.
			if ds[0].At.Before(back) && ds[0].At.Sub(t0) > 5*time.Second {
				meanwhile++
			}
		}
		t.Logf("critical runs: half %v late, 99 %% %v, the last %v; %d came again", quantile(late, 0.5),
			quantile(late, 0.99), quantile(late, 1), again)
		if q := quantile(late, 0.99); q > 5*time.Second {
			t.Errorf("99 %% of the critical runs came within %v", q)
		}
		if meanwhile > 0 {
			t.Errorf("%d runs that are not critical left while the store was away", meanwhile)
		}
	}, "--on-store-loss", "critical", "--lease-ttl", leaseTTL.String())
}
