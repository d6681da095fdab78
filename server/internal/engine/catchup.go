package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// catchUp decides in which order, and how fast, leaves what became due while the store was away: overdue
// runs. It begins when the store is back (reach):
//
//	gathering   until all partitions are owned and loaded again, 5 s at most, only critical runs leave;
//	            those of a partition that comes last would otherwise follow the low ones of the first
//	catching up an overdue run leaves when no partition has one of a better priority in memory for the same
//	            queue; and by the rate, if there is one
//	over        when nothing that is overdue has waited for 5 s
//
// Other runs are not bounded, and neither are critical ones. The rate is charged for runs that leave: what
// waits for slots holds nothing up. All lanes share it.
type catchUp struct {
	rate    float64      // runs a second; 0: any number
	elapsed func() int64 // Engine.elapsed
	whole   func() bool  // the node owns all partitions that it is to own

	on atomic.Bool // lanes need not lock what is off

	mu            sync.Mutex
	since, before int64 // what was due from the one on, before the other, is overdue, UTC ns
	began         int64 // by elapsed, as the times below
	gathering     bool
	seen          int64                             // when something overdue was last seen
	heads         map[delivery.Queue]map[int]behind // by partition: its best overdue run
	of            map[int][]delivery.Queue          // in which a partition has heads
	short         [priorities]int64                 // when runs of a priority last had slots and no room
	filled        int64                             // when room was computed
	room          float64                           // how many runs may leave now
}

// behind is the priority of an overdue run, and when it was seen.
type behind struct {
	rank uint8
	seen int64
}

const (
	// gatherWithin bounds how long critical runs of partitions that are not owned yet are waited for.
	gatherWithin = 5 * time.Second
	// caughtUpAfter is how long nothing that is overdue must have waited until a catch-up is over.
	caughtUpAfter = 5 * time.Second
	// headsFor is how long a partition's overdue runs count that asks for nothing any more: it has lost its
	// term. Others ask at least once a second.
	headsFor = 3 * time.Second
	// askAgainAfter is after how long a partition asks again for what may not leave yet.
	askAgainAfter = 100 * time.Millisecond
)

func newCatchUp(rate int, elapsed func() int64, whole func() bool) *catchUp {
	return &catchUp{rate: float64(rate), elapsed: elapsed, whole: whole}
}

// begin begins a catch-up with what became due from since on, before an instant, UTC ns. What is left of an
// earlier one is overdue still.
func (c *catchUp) begin(since, before int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.on.Load() {
		since = min(since, c.since)
	}
	now := c.elapsed()
	c.since, c.before, c.began, c.seen, c.gathering = since, before, now, now, true
	c.filled, c.room, c.short = now, 0, [priorities]int64{}
	c.heads, c.of = map[delivery.Queue]map[int]behind{}, map[int][]delivery.Queue{}
	c.on.Store(true)
}

// overdue returns from when on, and before when, that was due that is overdue, UTC ns; 0, 0 if nothing is.
func (c *catchUp) overdue() (since, before int64) {
	if !c.on.Load() {
		return 0, 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.on.Load() {
		return 0, 0
	}
	return c.since, c.before
}

// bounded says how a catch-up has bounded what a partition asks for of a queue.
type bounded struct {
	on    bool
	rank  uint8 // of the overdue runs that may leave, beside critical ones
	most  int   // so many of them may, as far as there is room
	best  int   // how many overdue runs of the best priority wait
	later bool  // the partition is to ask again after askAgainAfter
}

// bound lowers Now, of the queues in which runs of a partition wait, to how many may leave now. It appends to
// out how, for each.
func (c *catchUp) bound(p int, lineup []delivery.Waiting, out []bounded) []bounded {
	if !c.on.Load() {
		return out
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.elapsed()
	c.see(p, lineup, now)
	for i := range lineup {
		out = append(out, c.boundOne(p, &lineup[i], now))
	}
	return out
}

// see notes what a partition has that is overdue. It ends the catch-up if nothing has been for long.
func (c *catchUp) see(p int, lineup []delivery.Waiting, now int64) {
	for _, q := range c.of[p] {
		c.forget(p, q)
	}
	c.of[p] = c.of[p][:0]
	for i := range lineup {
		w := &lineup[i]
		if w.Overdue.N == 0 {
			continue
		}
		c.seen = now
		if c.heads[w.Queue] == nil {
			c.heads[w.Queue] = map[int]behind{}
		}
		c.heads[w.Queue][p] = behind{w.Overdue.Head.Priority, now}
		c.of[p] = append(c.of[p], w.Queue)
	}
	if now-c.seen >= int64(caughtUpAfter) {
		c.heads, c.of = nil, nil
		c.on.Store(false)
	}
}

// forget forgets what a partition has in a queue that is overdue.
func (c *catchUp) forget(p int, q delivery.Queue) {
	of := c.heads[q]
	if delete(of, p); len(of) == 0 {
		delete(c.heads, q)
	}
}

func (c *catchUp) boundOne(p int, w *delivery.Waiting, now int64) (b bounded) {
	if !c.on.Load() || w.Now == 0 {
		return b
	}
	critical := carillon.PriorityCritical.Rank()
	c.gathering = c.gathering && now-c.began < int64(gatherWithin) && !c.whole()
	if c.gathering {
		most := 0
		if w.Head.Priority == critical {
			most = w.Alike
		}
		b = bounded{on: true, best: most, later: w.N > most}
		w.Now = min(w.Now, most)
		return b
	}
	o := &w.Overdue
	b = bounded{on: true, rank: o.Head.Priority, best: o.Alike}
	most := w.N - o.N
	switch {
	case o.N == 0:
	case o.Head.Priority == critical:
		most += o.Alike
	case c.better(p, w, now):
		b.later = true
	default:
		b.most = c.mayTake(o.Alike, now)
		b.later = b.most < o.Alike
		most += b.most
	}
	w.Now = min(w.Now, most)
	return b
}

// better reports whether another partition has an overdue run of a better priority for the same queue.
func (c *catchUp) better(p int, w *delivery.Waiting, now int64) bool {
	for of, head := range c.heads[w.Queue] {
		if of != p && head.rank < w.Overdue.Head.Priority && now-head.seen < int64(headsFor) {
			return true
		}
	}
	return false
}

// take returns how many overdue runs of a queue may leave by n slots, and takes room for them.
func (c *catchUp) take(b bounded, n int) *partition.Bound {
	if !b.on {
		return nil
	}
	n = min(n, b.most)
	if c.rate > 0 && n > 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		n = c.takeRoom(int(b.rank), n, c.elapsed())
	}
	return &partition.Bound{Rank: b.rank, N: n}
}

// left records that n runs have left of those that a partition has asked for, and what was taken and is left
// of it. It reports whether the partition may ask for overdue runs of the next priority at once.
func (c *catchUp) left(p int, q delivery.Queue, b bounded, rest *partition.Bound, n int) (next bool) {
	if !b.on {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rate > 0 {
		c.room += float64(rest.N)
	}
	if next = b.best > 0 && n >= b.best; next {
		c.forget(p, q)
	}
	return next
}

// mayTake returns how many of n overdue runs there is room for. If there is no room it is 1: whether the
// queue has a slot shows whether they wait for room.
func (c *catchUp) mayTake(n int, now int64) int {
	if c.rate == 0 {
		return n
	}
	c.fill(now)
	return min(n, max(1, c.share()))
}

func (c *catchUp) fill(now int64) {
	c.room = min(c.rate, c.room+c.rate*time.Duration(now-c.filled).Seconds())
	c.filled = now
}

// share is how much of the room one queue of a partition may take at once: not all there is.
func (c *catchUp) share() int { return max(int(c.room/4), min(1, int(c.room))) }

// takeRoom takes room for at most n overdue runs of a priority, which have slots. What a better one waits for
// is left to that.
func (c *catchUp) takeRoom(rank, n int, now int64) (taken int) {
	c.fill(now)
	for better := range rank {
		if at := c.short[better]; at != 0 && now-at < 2*int64(askAgainAfter) {
			return 0
		}
	}
	if taken = min(n, c.share()); taken < n {
		c.short[rank] = now
	}
	c.room -= float64(taken)
	return taken
}
