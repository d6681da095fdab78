package engine

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/store"
)

// Staged and dead runs are in the store only: no counter in memory could tell after a restart how many there
// are. So the node counts what its partitions hold, on stores that can count without reading
// ([store.Counter]): each partition as soon as it is owned and when another queue has parked runs there or
// has none any more, and all of them now and then. Readers add up the counts of all nodes of a cluster, so a
// partition must never be counted at two of them: a count is shown only as long as the term under which it
// was made is in force.

const (
	// censusLook is how often the node checks whether it is time to count.
	censusLook = time.Second
	// censusEvery is how often it counts all. Counting takes at most one censusShare-th of the time, but for
	// the first count of a term.
	censusEvery = 10 * time.Second
	censusShare = 100

	// All jobs are counted more rarely, since that takes time for each: a while after the start, and then at
	// most for one jobsShare-th of the time.
	jobsFirst = 30 * time.Second
	jobsEvery = time.Minute
	jobsShare = 1000
)

// census holds the last counts, by partition; nil before the first, and on stores that cannot count. The map
// is never changed.
type census struct {
	partitions *partitions
	holdings   func() []store.Holding // what the node holds now
	elapsed    func() int64           // the engine's monotonic clock

	last atomic.Pointer[map[int]counted]
	jobs atomic.Pointer[map[int]jobsCounted]
}

// jobsCounted is how many jobs a partition had when all were last counted.
type jobsCounted struct {
	term store.Term
	n    int
}

// counted is what a partition held when it was last counted.
type counted struct {
	term     store.Term
	recorded uint64 // figures.recorded when the count began
	counts   store.Counts
}

// run keeps the census up to date until the engine stops.
func (c *census) run(from store.Counter) {
	look := time.NewTicker(censusLook)
	defer look.Stop()
	jobs := c.elapsed() + int64(jobsFirst)    // when to count all jobs
	for next, rest := int64(0), int64(0); ; { // when to count all, and until when only what must be counted
		if c.elapsed() >= jobs {
			jobs = c.countJobs(from)
		}
		began := c.elapsed()
		all := began >= max(next, rest)
		held := c.begin()
		if !all {
			held = c.outdated(held, began >= rest)
		}
		if len(held) > 0 || all {
			if err := c.count(from, held, all); err != nil { // the last counts stay
				c.partitions.log.Debug("what is staged and dead could not be counted", "error", err)
			} else if all {
				next = c.elapsed() + int64(censusEvery)
			}
			ended := c.elapsed()
			rest = max(rest, ended+censusShare*(ended-began))
		}
		select {
		case <-look.C:
		case <-c.partitions.life.Done():
			return
		}
	}
}

// uncounted is a partition that is about to be counted.
type uncounted struct {
	store.Holding
	recorded uint64 // as in counted
}

// begin returns what the node holds now.
func (c *census) begin() []uncounted {
	holdings := c.holdings()
	held := make([]uncounted, len(holdings))
	for i, h := range holdings { // after the terms: what a later term has recorded is of no use to this one
		held[i] = uncounted{h, c.partitions.parts[h.Partition].figures.recorded.Load()}
	}
	return held
}

// count counts what the held partitions hold. If they are not all of the node's partitions, the counts of the
// others stay.
func (c *census) count(from store.Counter, held []uncounted, all bool) error {
	numbers := make([]int, len(held))
	for i := range held {
		numbers[i] = held[i].Partition
	}
	counts, err := from.Count(c.partitions.life, numbers)
	if err != nil {
		return err
	}
	next := make(map[int]counted, len(held))
	if before := c.last.Load(); before != nil && !all {
		maps.Copy(next, *before)
	}
	for i, h := range held {
		next[h.Partition] = counted{h.Term, h.recorded, counts[i]}
	}
	c.last.Store(&next)
	return nil
}

// countJobs counts all jobs, and returns when to do so again.
func (c *census) countJobs(from store.Counter) (again int64) {
	began := c.elapsed()
	held := c.holdings()
	numbers := make([]int, len(held))
	for i := range held {
		numbers[i] = held[i].Partition
	}
	counts, err := from.CountJobs(c.partitions.life, numbers)
	if err != nil {
		c.partitions.log.Debug("jobs could not be counted", "error", err)
	} else {
		next := make(map[int]jobsCounted, len(held))
		for i, h := range held {
			next[h.Partition] = jobsCounted{h.Term, counts[i]}
		}
		c.jobs.Store(&next)
	}
	ended := c.elapsed()
	return ended + max(int64(jobsEvery), jobsShare*(ended-began))
}

// outdated returns the partitions that have not been counted under their term and, if changed is set, those
// in which other queues have parked runs than when they were counted.
func (c *census) outdated(held []uncounted, changed bool) []uncounted {
	last := c.last.Load()
	return slices.DeleteFunc(held, func(h uncounted) bool {
		if last == nil {
			return false
		}
		n := (*last)[h.Partition]
		return n.term == h.Term && (n.recorded == h.recorded || !changed)
	})
}

// storedCounts returns the last counts of the partitions that the node still owns.
func (c *census) storedCounts() store.Counts {
	sum := store.NewCounts()
	if last := c.last.Load(); last != nil {
		for _, h := range c.holdings() {
			if n := (*last)[h.Partition]; n.term == h.Term {
				sum.Add(n.counts)
			}
		}
	}
	return sum
}

// Backlog returns what waits for a consumer, for room or for a permit, by queue. A run that is being
// parked, or has just been read back from the store, can be in both numbers.
func (c *census) Backlog() map[delivery.Queue]delivery.Backlog {
	sum := map[delivery.Queue]delivery.Backlog{}
	for _, p := range c.partitions.parts {
		if waiting := p.figures.waiting.Load(); waiting != nil {
			for _, w := range *waiting {
				b := sum[w.queue]
				b.Oldest = oldest(b, w.oldest)
				b.Ready += w.n
				b.Permits += w.inLine
				sum[w.queue] = b
			}
		}
	}
	for name, staged := range c.storedCounts().Staged {
		q := delivery.ParseQueue(name).Plain()
		b := sum[q]
		b.Oldest = oldest(b, staged.Oldest)
		b.Staged += staged.N
		sum[q] = b
	}
	return sum
}

// Dead returns how many dead runs there are, by namespace, as of the last count.
func (c *census) Dead() map[string]int { return c.storedCounts().Dead }

// JobsByPhase returns how many jobs of the node's partitions are in each phase, as the store has them.
// Those that are scheduled are the others of all jobs, as of the last count of these; a partition that
// came since has none.
func (c *census) JobsByPhase() map[carillon.Phase]int {
	sum := map[carillon.Phase]int{}
	last, jobs := c.last.Load(), c.jobs.Load()
	if last == nil {
		return sum
	}
	for _, h := range c.holdings() {
		counts := (*last)[h.Partition]
		if counts.term != h.Term {
			continue
		}
		others := 0
		for phase, n := range counts.counts.Phases {
			sum[phase] += n
			others += n
		}
		if jobs != nil {
			if all := (*jobs)[h.Partition]; all.term == h.Term {
				sum[carillon.PhaseScheduled] += max(0, all.n-others)
			}
		}
	}
	return sum
}

// Missing returns how often jobs wait for a job that does not exist; each pair of a job and a name counts
// once. It is as of each partition's last check, about once a minute. A partition whose term has just begun
// checks after a quarter of that, and counts as 0 before.
func (c *census) Missing() int {
	var sum int64
	for _, p := range c.partitions.parts {
		term, _ := p.lease.held()
		if m := p.waiters.missing.Load(); m != nil && m.term == term && p.own.holds() {
			sum += m.n
		}
	}
	return int(sum)
}

// oldest returns the due time of the oldest run, if what is due at that time is added.
func oldest(b delivery.Backlog, due int64) int64 {
	if b.Len() == 0 {
		return due
	}
	return min(b.Oldest, due)
}
