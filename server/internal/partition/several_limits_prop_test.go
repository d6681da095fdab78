package partition_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// cats is a rig with reminders that are due at once, under a limit of their type and of some of their keys.
// It knows which are in force, and compares that with the limits alone.
type cats struct {
	*rig
	rt      *rapid.T
	bank    *bank
	key     map[string]string // by job
	waiting []string          // jobs that have not begun, in the order in which they were due
	inForce []delivery.Delivery
	// Runs have been parked or have returned for want of slots what they had kept, or a limit has changed: they
	// may go in another order than that in which they were due.
	anyOrder bool
}

func newCats(rt *rapid.T, n int, limits map[string]int) *cats {
	h := &cats{rt: rt, bank: newBank(), key: map[string]string{}}
	for key, most := range limits {
		h.bank.most[h.limit(key)] = most
	}
	h.rig = newRig(rt, partition.Config{Limiter: h.bank, WindowJobs: rapid.SampledFrom([]int{4, 1000}).Draw(rt,
		"window")})
	for i := range n {
		key := rapid.SampledFrom([]string{"", "n", "m", "free"}).Draw(rt, "key")
		name := fmt.Sprintf("dapr/actor/cat/1/%03d", i)
		h.key[name], h.waiting = key, append(h.waiting, name)
		h.mustPut(carillon.Job{Name: name, Due: carillon.At(time.Unix(0, epoch-int64(n-i))),
			FailurePolicy: carillon.Drop(),
			Target: carillon.Target{Dapr: &carillon.DaprTarget{AppID: "x", ActorType: "cat", ActorID: "1",
				ConcurrencyKey: key}}})
	}
	return h
}

func (h *cats) limit(key string) delivery.Limit {
	return delivery.ActorLimit(carillon.DefaultNamespace, "cat", key)
}

// limits are those that a job is under, as far as they are in force.
func (h *cats) limits(job string) (all []delivery.Limit) {
	for _, l := range []delivery.Limit{h.limit(h.key[job]), h.limit("")} {
		if _, limited := h.bank.most[l]; limited && !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	return all
}

// room returns how many more attempts of a limit may be in force, by what consumers have.
func (h *cats) room(l delivery.Limit) int {
	n := h.bank.most[l]
	for _, d := range h.inForce {
		if slices.Contains(h.limits(d.Run.Job), l) {
			n--
		}
	}
	return n
}

// round is a round of the engine with n free slots.
func (h *cats) round(n int) {
	h.step()
	var lines []delivery.Line
	for l := range h.bank.waits {
		lines = append(lines, l)
	}
	slices.SortFunc(lines, func(a, b delivery.Line) int { return cmp.Compare(a.String(), b.String()) })
	for _, l := range lines {
		if free := min(h.bank.free(l.Limit), h.bank.waits[l]); free > 0 {
			delete(h.bank.waits, l)
			h.m.Promote(h.now, l, free)
		}
	}
	for _, q := range append(h.m.Permits.Promoted(), queueCat) {
		if sq, ok := h.m.Window.WantStaged(q, 100); ok {
			h.m.LoadStaged(q, sq, h.staged(sq), h.now)
		}
	}
	h.m.Deliver(nil, h.now, queueCat, n, false, nil)
	h.m.Permits.ReturnUnused()
	ds, _ := h.granted()
	for _, d := range ds {
		h.inForce = append(h.inForce, d)
		for _, l := range h.limits(d.Run.Job) {
			if h.room(l) < 0 {
				h.rt.Fatalf("more than %d are in force of %q", h.bank.most[l], l.Key)
			}
		}
		h.first(d.Run.Job)
	}
}

// first checks that a job is the first to go of those with its key.
func (h *cats) first(job string) {
	for i, other := range h.waiting {
		if other == job {
			h.waiting = slices.Delete(h.waiting, i, i+1)
			return
		}
		if h.key[other] == h.key[job] && !h.anyOrder {
			h.rt.Fatalf("%s of key %q goes before %s", job, h.key[job], other)
		}
	}
	h.rt.Fatalf("%s was handed out twice", job)
}

// TestSeveralLimits: at every moment each limit holds; no permit stays idle while a run could go; runs of a
// key go in order; and all of them run.
func TestSeveralLimits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		most := func(name string) int { return rapid.IntRange(1, 5).Draw(rt, name) }
		n := rapid.IntRange(1, 40).Draw(rt, "runs")
		h := newCats(rt, n, map[string]int{"": most("type"), "n": most("n"), "m": most("m")})
		for range 100_000 {
			switch rapid.IntRange(0, 7).Draw(rt, "then") {
			case 0:
				h.now += int64(2 * time.Second)
				h.anyOrder = true
				h.m.Window.StageAside(h.now, rapid.IntRange(1, 10).Draw(rt, "parked"))
				h.flush()
			case 1, 2:
				before := h.bank.freed
				h.round(rapid.IntRange(0, 2).Draw(rt, "slots"))
				h.anyOrder = h.anyOrder || h.bank.freed != before
			case 3:
				if len(h.inForce) == 0 {
					continue
				}
				h.anyOrder = true
				l := rapid.SampledFrom(h.limits(h.inForce[0].Run.Job)).Draw(rt, "limit")
				h.m.Permits.ForgoKept("")
				h.bank.most[l] = max(h.bank.inForce[l], most("another"))
			default:
				h.quiet()
				if len(h.inForce) == 0 {
					h.over()
					return
				}
				h.end(rapid.IntRange(0, len(h.inForce)-1).Draw(rt, "ends"))
			}
		}
		rt.Fatal("it does not come to an end")
	})
}

// end ends an attempt.
func (h *cats) end(i int) {
	d := h.inForce[i]
	h.inForce = slices.Delete(h.inForce, i, i+1)
	if v := h.succeed(d); v != partition.Accepted {
		h.rt.Fatalf("%s: %v", d.Run.Job, v)
	}
	h.flush()
}

// quiet has rounds with many slots until none changes anything, and checks that whoever waits must.
func (h *cats) quiet() {
	for range 8 {
		h.round(100)
		h.flush()
		h.m.Permits.WaitAgain()
	}
	for _, job := range h.waiting {
		if !slices.ContainsFunc(h.limits(job), func(l delivery.Limit) bool { return h.room(l) <= 0 }) {
			h.rt.Fatalf("%s of key %q waits for nothing; %d in force", job, h.key[job], len(h.inForce))
		}
	}
}

// over checks that nothing is left.
func (h *cats) over() {
	h.flush()
	if len(h.waiting) > 0 {
		h.rt.Fatalf("%d have not run", len(h.waiting))
	}
	for l, n := range h.bank.inForce {
		if n != 0 {
			h.rt.Fatalf("%d permits of %q are left", n, l.Key)
		}
	}
	if s := h.m.Stats(); s != (partition.Stats{}) || len(h.bank.waits) > 0 {
		h.rt.Fatalf("left: %+v, %v", s, h.bank.waits)
	}
	for _, t := range h.m.Permits.Tallies(func(delivery.Limit) bool { return true }) {
		if t.InForce != 0 || t.Waiting != 0 {
			h.rt.Fatalf("left: %+v", t)
		}
	}
}
