package permit

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/permitrecord"
	"github.com/carillonhq/carillon/server/store"
)

// country is a set of partitions that contain the homes of their limits, over a network and a store as bad as
// the protocol allows. Messages are lost, late, duplicated and out of order. Owners are replaced, and for a
// while do not know it.
type country struct {
	rng    *rand.Rand
	now    int64
	limits map[delivery.Limit]int
	rates  map[delivery.Limit]carillon.Rate // of those among limits that are rates
	judges map[delivery.Limit]*judge
	towns  []*town
	ghosts []*town // owners that were replaced and do not know it
	wires  []wire
	calm   bool // nothing is lost or late any more, and owners stay
	fault  string
	begun  int
}

// town is a partition under a term, with what the store has of it.
type town struct {
	*country
	number int
	term   store.Term
	gone   bool // another owner has the partition
	pool   *Pool
	home   *Home
	disk   *disk
	queue  map[delivery.Limit][]int64 // orders of runs that wait, sorted
	waits  map[delivery.Limit]bool
	told   map[delivery.Limit]int
	owed   []func() // to do when the batch being filled is durable
	batch  []store.MetaRecord
	begins map[int]delivery.Limit // attempts that begin in the batch
	ends   []int
	inForc map[int]delivery.Limit // attempts in force, in memory
	silent bool                   // its runs never end
	starts []delivery.Limit       // attempts under rates that begin in the batch
	boot   int64                  // when its monotonic clock began
	skew   int64                  // of its clock
}

// judge is a bucket that never lets more begin than its rate allows, kept by who knows everything.
type judge struct {
	carillon.Rate
	level float64
	at    int64
}

// begin judges an attempt that begins.
func (j *judge) begin(now int64) (fault string) {
	j.level = min(float64(j.Burst), j.level+float64(now-j.at)*float64(j.Count)/float64(j.Period)) - 1
	if j.at = now; j.level < -1e-6 {
		return fmt.Sprintf("the bucket of %v has %.3f", j.Rate, j.level)
	}
	return ""
}

// disk is what is durable.
type disk struct {
	grants map[string][]byte
	force  map[int]delivery.Limit // attempts in force
	queue  map[delivery.Limit][]int64
}

// wire is a message in flight.
type wire struct {
	at int64
	do func()
}

func newCountry(seed uint64, n int, limits map[delivery.Limit]int, rates map[delivery.Limit]carillon.Rate) *country {
	c := &country{rng: rand.New(rand.NewPCG(seed, 32)), now: int64(time.Hour), limits: limits, rates: rates,
		judges: map[delivery.Limit]*judge{}}
	for l, r := range rates {
		limits[l] = int(r.Burst)
		c.judges[l] = &judge{Rate: r, level: float64(r.Burst), at: c.now}
	}
	for i := range n {
		t := &town{country: c, number: i,
			disk: &disk{map[string][]byte{}, map[int]delivery.Limit{}, map[delivery.Limit][]int64{}}}
		c.towns = append(c.towns, t)
		t.take(1)
	}
	return c
}

func (c *country) limitOf(l delivery.Limit) (int, bool) {
	n, ok := c.limits[l]
	return n, ok
}

func (c *country) rateOf(l delivery.Limit) (carillon.Rate, bool) {
	r, ok := c.rates[l]
	return r, ok
}

// tick tells the home the time, by the clocks of its node.
func (t *town) tick() { t.home.Tick(t.now-t.boot, t.now+t.skew) }

func lineFor(l delivery.Limit) delivery.Line {
	return delivery.Line{Limit: l, Queue: delivery.Queue{Address: "q"}}
}

// take makes a new owner of the partition from what is durable.
func (t *town) take(epoch uint64) {
	t.term = store.Term{Epoch: epoch, Nonce: epoch * 7}
	t.waits, t.told = map[delivery.Limit]bool{}, map[delivery.Limit]int{}
	t.begins, t.inForc = map[int]delivery.Limit{}, maps.Clone(t.disk.force)
	t.queue = map[delivery.Limit][]int64{}
	for l, q := range t.disk.queue {
		t.queue[l] = slices.Clone(q)
	}
	t.home = NewHome(t.term, t.limitOf, t.rateOf)
	t.boot, t.skew = t.rng.Int64N(t.now), t.rng.Int64N(int64(maxSkew))-int64(maxSkew)/2
	t.tick()
	var small []store.MetaRecord
	for _, k := range slices.Sorted(maps.Keys(t.disk.grants)) {
		small = append(small, store.MetaRecord{Kind: store.KindAllocation, Key: k, Value: t.disk.grants[k]})
	}
	if err := t.home.Load(small); err != nil {
		t.fault = err.Error()
	}
	var held []delivery.Limit
	for _, id := range slices.Sorted(maps.Keys(t.disk.force)) {
		held = append(held, t.disk.force[id])
	}
	t.pool = NewPool(message.Asker{Partition: t.number, Term: t.term}, parts, t.limitOf,
		func(_ int, l delivery.Line, n int) { t.told[l.Limit] += n })
	t.pool.Load(held)
}

const parts = 4

// post sends a message to the owner of a partition at the time of its arrival, or to a ghost that still
// believes it is the owner.
func (c *country) post(to int, f func(t *town)) {
	copies := 1
	if !c.calm {
		switch c.rng.IntN(8) {
		case 0:
			copies = 0
		case 1:
			copies = 2
		}
	}
	for range copies {
		delay := int64(c.rng.IntN(5)) * int64(time.Millisecond)
		if !c.calm && c.rng.IntN(6) == 0 {
			delay = int64(c.rng.IntN(10_000)) * int64(time.Millisecond)
		}
		c.wires = append(c.wires, wire{c.now + delay, func() {
			if !c.calm && c.rng.IntN(3) == 0 {
				for _, g := range c.ghosts {
					if g.number == to {
						f(g)
						return
					}
				}
			}
			f(c.towns[to])
		}})
	}
}

// step is a round of a town: it sends what it has to send, and begins what may begin.
func (t *town) step() {
	for _, l := range slices.SortedFunc(maps.Keys(t.limits), delivery.Limit.Compare) {
		_, news := t.told[l]
		delete(t.told, l)
		if news {
			t.waits[l] = false
		}
		room := t.rng.IntN(4) > 0 || t.calm
		for !t.waits[l] && len(t.queue[l]) > 0 && room {
			if !t.begin(l) {
				break
			}
		}
		if news {
			t.pool.Pass(lineFor(l))
		}
		if q := t.queue[l]; !t.waits[l] && len(q) > 0 && (room || t.rng.IntN(3) == 0) {
			t.waits[l] = true
			t.pool.Wait(lineFor(l), q[0], len(q))
		} else if len(q) == 0 && t.waits[l] {
			t.waits[l] = false
			t.pool.Leave(lineFor(l))
		}
	}
	t.tick()
	t.write(t.home.Write()...)
	t.speak()
	t.say()
	if t.rng.IntN(3) == 0 || t.calm {
		t.commit()
	}
}

// begin takes a permit for the first run that waits. The attempt is handed out when that is durable.
func (t *town) begin(l delivery.Limit) bool {
	ok, limited := t.pool.Take(lineFor(l))
	if !ok || !limited {
		return false
	}
	if l.IsRate() {
		if t.rng.IntN(10) == 0 && !t.calm { // it is withdrawn
			t.pool.Free(l)
			return false
		}
		t.queue[l] = t.queue[l][1:]
		t.starts = append(t.starts, l)
		return true
	}
	t.country.begun++
	id := t.country.begun
	t.queue[l] = t.queue[l][1:]
	t.inForc[id], t.begins[id] = l, l
	return true
}

// finish ends an attempt. Its permit is free when that is durable.
func (t *town) finish(id int) {
	if _, fresh := t.begins[id]; fresh || slices.Contains(t.ends, id) {
		return
	}
	t.ends = append(t.ends, id)
	l := t.inForc[id]
	t.owed = append(t.owed, func() { delete(t.inForc, id); t.pool.Free(l) })
}

func (t *town) write(small ...store.MetaRecord) { t.batch = append(t.batch, small...) }

// commit makes the changes durable unless another owner has the partition. Then the town finds out and ends.
func (t *town) commit() {
	dirty := len(t.batch) > 0 || len(t.begins) > 0 || len(t.ends) > 0 || len(t.starts) > 0
	if t.gone && dirty {
		t.ghosts = slices.DeleteFunc(t.ghosts, func(g *town) bool { return g == t })
		t.owed = nil
		return
	}
	for _, s := range t.batch {
		if s.Value == nil {
			delete(t.disk.grants, s.Key)
		} else {
			t.disk.grants[s.Key] = s.Value
		}
	}
	if !t.gone {
		maps.Copy(t.disk.force, t.begins)
		for _, id := range t.ends {
			delete(t.disk.force, id)
		}
		for l, q := range t.queue {
			t.disk.queue[l] = slices.Clone(q)
		}
	}
	for _, l := range t.starts {
		t.pool.Spend(l)
		if fault := t.judges[l].begin(t.now); fault != "" && t.fault == "" {
			t.fault = fmt.Sprintf("%v: %s", l, fault)
		}
	}
	t.starts, t.batch, t.ends, t.begins = nil, nil, nil, map[int]delivery.Limit{}
	owed := t.owed
	t.owed = nil
	for _, f := range owed {
		f()
	}
}

// tell does something once the decision behind it is durable.
func (t *town) tell(f func()) { t.owed = append(t.owed, f) }

// speak sends partitions their notices.
func (t *town) speak() {
	for _, n := range t.home.Notices() {
		t.tell(func() { t.post(n.Partition, func(d *town) { d.pool.Hear([]message.PermitGrant{n.PermitGrant}) }) })
	}
}

// say sends the requests to homes.
func (t *town) say() {
	for _, a := range t.pool.Asks(t.now) {
		from := t.pool.me
		asked := t.homes(a.Home)
		t.wires = append(t.wires, wire{t.now + int64(2*time.Second), func() { // the request has timed out
			if t.homes(a.Home) == asked {
				t.pool.Answered(t.now, a.Home, nil, false)
			}
		}})
		t.post(a.Home, func(h *town) {
			h.tick()
			grants := h.home.Answer(from, a.Asks)
			h.write(h.home.Write()...)
			h.tell(func() {
				t.wires = append(t.wires, wire{t.now + int64(t.rng.IntN(3))*int64(time.Millisecond), func() {
					if t.homes(a.Home) == asked && (t.calm || t.rng.IntN(8) > 0) {
						t.pool.Answered(t.now, a.Home, grants, true)
					}
				}})
			})
			h.speak()
		})
	}
}

// homes names the request that is in flight to a home.
func (t *town) homes(n int) *message.PermitRequest {
	if c := t.pool.homes[n]; c != nil && len(c.asked) > 0 {
		return &c.asked[0]
	}
	return nil
}

// all returns every town that believes it owns a partition.
func (c *country) all() []*town { return append(slices.Clone(c.towns), c.ghosts...) }

// pass lets some time pass.
func (c *country) pass() {
	c.now += int64(c.rng.IntN(3)) * int64(time.Millisecond)
	if !c.calm && c.rng.IntN(60) == 0 {
		c.now += int64(c.rng.IntN(3000)) * int64(time.Millisecond)
	}
	c.rng.Shuffle(len(c.wires), func(i, j int) { c.wires[i], c.wires[j] = c.wires[j], c.wires[i] })
	due := slices.Clone(c.wires)
	c.wires = nil
	for _, w := range due {
		if w.at <= c.now {
			w.do()
		} else {
			c.wires = append(c.wires, w)
		}
	}
	for _, t := range c.all() {
		if c.calm || c.rng.IntN(3) > 0 {
			t.step()
		}
		if c.rng.IntN(20) == 0 {
			t.pool.Poll(c.now)
			t.home.Poll()
		}
		for _, id := range slices.Sorted(maps.Keys(t.inForc)) {
			if !t.silent && c.rng.IntN(10) == 0 {
				t.finish(id)
			}
		}
	}
	c.check()
}

// replace gives a partition a new owner. The old one may go on for a while.
func (c *country) replace(i int) {
	old := c.towns[i]
	t := &town{country: c, number: i, disk: old.disk}
	old.gone = true
	if c.rng.IntN(2) == 0 {
		c.ghosts = append(c.ghosts, old)
	}
	c.towns[i] = t
	t.take(old.term.Epoch + 1)
}

// check holds at every moment: no partition uses more than its home has allocated to it, and all together use
// no more than the limit.
func (c *country) check() {
	used := map[delivery.Limit]int{}
	for _, t := range c.towns {
		own := map[delivery.Limit]int{}
		for _, l := range t.disk.force {
			used[l]++
			own[l]++
		}
		for l, n := range own {
			key := permitrecord.Allocation{Limit: l, Partition: t.number}.Record().Key
			v := c.towns[permitrecord.HomeOf(l, parts)].disk.grants[key]
			a, _ := permitrecord.ParseAllocation(&store.MetaRecord{Key: key, Value: v})
			if n > a.N && c.fault == "" {
				c.fault = fmt.Sprintf("partition %d has %d attempts of %v in force, its home has given it %d",
					t.number, n, l, a.N)
			}
		}
	}
	for l, n := range used {
		if n > c.limits[l] && c.fault == "" {
			c.fault = fmt.Sprintf("%d attempts of %v are in force, its limit is %d", n, l, c.limits[l])
		}
	}
}

// add puts a run into a town's line.
func (t *town) add(l delivery.Limit, order int64) {
	t.queue[l] = append(t.queue[l], order)
	q := t.queue[l]
	slices.Sort(q)
	t.disk.queue[l] = append(t.disk.queue[l], order)
	slices.Sort(t.disk.queue[l])
	if t.waits[l] { // as the machine does: a better first run makes the line wait again
		t.pool.Wait(lineFor(l), q[0], len(q))
	}
}

// left returns what has not been done.
func (c *country) left() string {
	var out []string
	for _, t := range c.towns {
		for l, q := range t.queue {
			if len(q) > 0 {
				out = append(out, fmt.Sprintf("partition %d: %d of %v wait", t.number, len(q), l))
			}
		}
		for _, l := range t.inForc {
			out = append(out, fmt.Sprintf("partition %d: one of %v is in force", t.number, l))
		}
		if len(t.pool.held) > 0 || t.pool.Left() != "" {
			out = append(out, fmt.Sprintf("partition %d still has tokens: %s", t.number, t.pool.Left()))
		}
		for k := range t.disk.grants {
			if strings.Count(k, "\x00") == 1 { // the level of a bucket that fills
				continue
			}
			out = append(out, fmt.Sprintf("partition %d has given %q", t.number, k))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// live plays one life. It returns the fault, "" if there is none.
func live(seed uint64) string {
	limits := map[delivery.Limit]int{}
	for i := range 3 {
		limits[delivery.Limit{Namespace: "ns", Key: fmt.Sprint("key", i, seed%5)}] = 1 + int(seed+uint64(i))%3*2
	}
	rates := map[delivery.Limit]carillon.Rate{
		delivery.RateLimit("ns", fmt.Sprint("a", seed%3)): {Count: 40, Period: time.Second, Burst: 1},
		delivery.RateLimit("ns", fmt.Sprint("b", seed%3)): {Count: 5 + int64(seed%7), Period: time.Second, Burst: 3},
		delivery.RateLimit("ns", ""):                      {Count: 900, Period: time.Minute, Burst: 20},
	}
	c := newCountry(seed, parts, limits, rates)
	keys := slices.SortedFunc(maps.Keys(limits), delivery.Limit.Compare)
	for range 400 {
		if c.rng.IntN(3) == 0 {
			c.towns[c.rng.IntN(parts)].add(keys[c.rng.IntN(len(keys))], int64(c.rng.IntN(1000)))
		}
		if c.rng.IntN(25) == 0 {
			c.replace(c.rng.IntN(parts))
		}
		if c.pass(); c.fault != "" {
			return c.fault
		}
	}
	c.calm, c.ghosts = true, nil
	for i := 0; i < 8000 && (i%50 != 0 || c.left() != ""); i++ {
		c.now += int64(5 * time.Millisecond)
		if c.pass(); c.fault != "" {
			return c.fault
		}
	}
	return c.left()
}

// TestTokensOfACluster plays many lives: never more in force than the limit, and whoever waits gets a permit
// once messages flow.
func TestTokensOfACluster(t *testing.T) {
	seeds := uint64(100)
	if testing.Short() {
		seeds = 40
	}
	for seed := range seeds {
		if fault := live(seed); fault != "" {
			t.Fatalf("seed %d: %s", seed, fault)
		}
	}
}
