package permit

import (
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/permitrecord"
)

// Pool is the [partition.Limiter] of one partition in a cluster, under one term. It uses the permits that the
// homes of limits have allocated to the partition, asks for more, and returns what is not needed.
// home.go explains the protocol.
type Pool struct {
	me         message.Asker
	partitions int
	limitOf    func(delivery.Limit) (n int, limited bool)
	counter    *Counter

	held    map[delivery.Limit]*holding
	homes   map[int]*home
	touched []*holding // to be looked at
	later   []*holding // those that may not ask yet
	// Limits that have been recalled since Recalled was last called.
	recalled []delivery.Limit
	closed   bool
}

// holding is the state of one limit in the partition.
type holding struct {
	key        delivery.Limit
	home       *home
	granted    int           // permits that the partition may use
	seen       message.Stamp // of the newest grant that it has accepted
	nextWaiter int64         // see Grant
	spent      uint64        // see PermitRequest

	booked int   // what the home believes it to have; unknownBooked if that is not known
	wanted int   // how many more the home knows it to want
	order  int64 // of the first run that these are for, as the home knows it
	want   int   // how many more it does want; see look
	asked  int64 // when the home was last asked

	idle   int64 // since when permits are free and not wanted; 0: they are not
	unused bool  // it was granted permits that it could not use
	pause  int64 // until when it does not ask for more

	queued  bool // in touched
	delayed bool // in later
	waits   bool // in home.waiting
}

// home is the conversation with the home of some limits.
type home struct {
	floor   message.Stamp           // of grants for limits that have been forgotten: older ones are ignored
	spent   uint64                  // the most that was used up of one that has been forgotten
	waiting []*holding              // with something to tell the home
	asked   []message.PermitRequest // the request in flight; nil: none
	retryAt int64
}

// Requests is one message to the home of some limits.
type Requests struct {
	Home int
	Asks []message.PermitRequest
}

const (
	unknownBooked = -1
	// lingerFor is how long free permits that nobody is known to want are kept for the partition's next run.
	lingerFor = time.Second
	// askAgain is how often a partition that waits repeats its request: a home forgets waiters when its owner
	// changes.
	askAgain = time.Second
	// askPause is how long after a failed request the next one is sent.
	askPause = 200 * time.Millisecond
	// unusedPause is how long no permits are asked for after some could not be used.
	unusedPause = 100 * time.Millisecond
	// asksAtOnce bounds the limits of one request.
	asksAtOnce = 256
)

// NewPool makes the pool for a term. partitions is the number of partitions. Of limitOf only matters
// whether a key has a limit. tell is called with how many permits have been reserved for a line; it must not
// call back.
func NewPool(me message.Asker, partitions int, limitOf func(delivery.Limit) (int, bool),
	tell func(p int, l delivery.Line, n int)) *Pool {
	p := &Pool{me: me, partitions: partitions, limitOf: limitOf, held: map[delivery.Limit]*holding{},
		homes: map[int]*home{}}
	p.counter = NewCounter(p.granted, tell)
	p.counter.yields = p.yields
	return p
}

// Load takes the permits of attempts in force, at takeover.
func (p *Pool) Load(held []delivery.Limit) {
	for _, l := range held {
		h := p.holding(l)
		h.granted++
		h.booked = unknownBooked
		p.touch(h)
	}
	p.counter.Charge(p.me.Partition, held)
}

// granted is the limit that the pool's counter applies: the permits that the partition was allocated.
func (p *Pool) granted(key delivery.Limit) (n int, limited bool) {
	if _, limited = p.limitOf(key); !limited {
		return 0, false
	}
	if h := p.held[key]; h != nil {
		n = h.granted
	}
	return n, true
}

// yields reports whether a run in another partition goes before a line whose first run has this order.
func (p *Pool) yields(key delivery.Limit, order int64) bool {
	h := p.held[key]
	return h != nil && h.nextWaiter < order
}

// Take implements [partition.Limiter].
func (p *Pool) Take(l delivery.Line) (ok, limited bool) {
	if p.owes(l) {
		return false, true
	}
	ok, limited = p.counter.Take(p.me.Partition, l)
	if ok && limited {
		p.touch(p.holding(l.Limit))
	}
	return ok, limited
}

// owes reports whether a free permit must not go to the line's next run: more is allocated than the limit
// allows, or another partition waits. In the latter case the run has to wait as well, so that its order
// decides who goes first.
func (p *Pool) owes(l delivery.Line) bool {
	h := p.held[l.Limit]
	if h == nil || h.nextWaiter == message.NoNextWaiter {
		return false
	}
	if _, limited := p.limitOf(l.Limit); !limited {
		return false
	}
	if h.nextWaiter == message.Recall {
		p.counter.Pass(p.me.Partition, l) // nor may it use one that was reserved before
	}
	p.touch(h)
	return p.counter.reserved(p.me.Partition, l) == 0
}

// Free implements [partition.Limiter].
func (p *Pool) Free(l delivery.Limit) {
	p.counter.Free(p.me.Partition, l)
	p.touch(p.holding(l))
}

// Spend implements [partition.Limiter].
func (p *Pool) Spend(l delivery.Limit) {
	h := p.holding(l)
	p.counter.spend(p.me.Partition, l)
	h.granted = max(0, h.granted-1)
	h.spent++
	p.touch(h)
}

// Wait implements [partition.Limiter].
func (p *Pool) Wait(l delivery.Line, order int64, want int) {
	if _, limited := p.limitOf(l.Limit); limited {
		p.touch(p.holding(l.Limit))
	}
	p.counter.Wait(p.me.Partition, l, order, want)
}

// Pass implements [partition.Limiter].
func (p *Pool) Pass(l delivery.Line) {
	if h := p.held[l.Limit]; h != nil {
		h.unused = h.unused || p.counter.reserved(p.me.Partition, l) > 0
		p.touch(h)
	}
	p.counter.Pass(p.me.Partition, l)
}

// Leave implements [partition.Limiter].
func (p *Pool) Leave(l delivery.Line) {
	p.counter.Leave(p.me.Partition, l)
	if h := p.held[l.Limit]; h != nil {
		p.touch(h)
	}
}

// Changed looks again at the limits of a namespace after its settings have changed; "" means all namespaces.
func (p *Pool) Changed(namespace string) {
	p.counter.Changed(namespace)
	p.touchAll(func(h *holding) bool { return namespace == "" || h.key.Namespace == namespace })
}

// Close returns every permit that is not in force. Nothing is asked for any more.
func (p *Pool) Close() {
	p.closed = true
	p.counter.Abandon(p.me.Partition)
	p.touchAll(func(*holding) bool { return true })
}

// Poll looks at what no event brings up. It is called about once a second.
func (p *Pool) Poll(now int64) {
	p.touchAll(func(h *holding) bool {
		return h.wanted > 0 && now-h.asked >= int64(askAgain) ||
			h.idle != 0 && now-h.idle >= int64(lingerFor) || h.nothing()
	})
}

// Hear processes grants from the homes of limits.
func (p *Pool) Hear(news []message.PermitGrant) {
	for i := range news {
		p.noteGrant(&news[i])
	}
}

func (p *Pool) noteGrant(g *message.PermitGrant) {
	h := p.held[g.Limit]
	switch {
	case g.Term.Epoch > p.me.Term.Epoch, h == nil && g.N == 0 && g.Want == 0:
		return // for the next owner, or about nothing
	case h == nil:
		h = p.holding(g.Limit)
	}
	older := g.Stamp.Compare(h.seen)
	switch {
	case g.Term != p.me.Term: // for an earlier owner, whose allocation must be corrected
		h.booked = unknownBooked
	case older > 0:
		h.seen, h.granted = g.Stamp, h.left(g)
		fallthrough
	case older == 0:
		h.booked, h.wanted = g.N, g.Want
		p.noteWaiter(h, g.NextWaiter)
	case h.left(g) != h.granted, h.spent > g.Spent:
		h.booked = unknownBooked
	}
	p.counter.again(h.key)
	p.touch(h)
}

// left returns what is left of a grant: some may have been used up of which the home did not know yet.
func (h *holding) left(g *message.PermitGrant) int {
	if h.spent <= g.Spent {
		return g.N
	}
	return int(max(0, int64(g.N)-int64(h.spent-g.Spent)))
}

// noteWaiter notes who waits elsewhere, or that the limit is recalled.
func (p *Pool) noteWaiter(h *holding, next int64) {
	if next == message.Recall && h.nextWaiter != message.Recall {
		p.recalled = append(p.recalled, h.key)
	}
	h.nextWaiter = next
}

// Recalled returns the limits of which, since it was last called, more has turned out to be allocated than
// they allow. Whoever has taken a permit of one, and has not begun, must give it back: until the home says
// otherwise no run gets one of them.
func (p *Pool) Recalled() []delivery.Limit {
	all := p.recalled
	p.recalled = nil
	return all
}

// Asks returns the requests to send now, at most one for each home that has none in flight. Each must be
// followed by Answered.
func (p *Pool) Asks(now int64) (out []Requests) {
	p.resume(now)
	for len(p.touched) > 0 {
		h := p.touched[0]
		p.touched = p.touched[1:]
		h.queued = false
		if p.look(h, now) && !h.waits {
			h.waits = true
			h.home.waiting = append(h.home.waiting, h)
		} else if !h.waits {
			p.forget(h)
		}
	}
	p.touched = nil
	if len(p.homes) == 0 { // each round asks, and most have no limit: an iterator over nothing allocates, too
		return nil
	}
	for _, n := range slices.Sorted(maps.Keys(p.homes)) {
		if c := p.homes[n]; len(c.waiting) > 0 && c.asked == nil && c.retryAt <= now {
			if p.ask(c, now); c.asked != nil {
				out = append(out, Requests{n, c.asked})
			}
		}
	}
	return out
}

// ask collects the request to a home.
func (p *Pool) ask(c *home, now int64) {
	for len(c.waiting) > 0 && len(c.asked) < asksAtOnce {
		h := c.waiting[0]
		c.waiting = c.waiting[1:]
		h.waits = false
		if p.look(h, now) {
			a := message.PermitRequest{Limit: h.key, Stamp: h.seen, Hold: h.granted, Want: h.want,
				Spent: h.spent}
			if h.want > 0 {
				a.Order = p.counter.first(h.key)
			}
			c.asked = append(c.asked, a)
			h.asked = now
		}
	}
}

// look returns what is not needed, finds out what is wanted, and reports whether the home must be told.
func (p *Pool) look(h *holding, now int64) bool {
	used, want := p.counter.state(h.key)
	_, limited := p.limitOf(h.key)
	if !limited || p.closed {
		want = 0
	}
	free := h.granted - used
	switch {
	case free <= 0:
		h.idle = 0
	case !limited, p.closed, want > 0, h.nextWaiter != message.NoNextWaiter, h.idle != 0 &&
		now-h.idle >= int64(lingerFor):
		h.granted, h.idle = used, 0
	case h.idle == 0:
		h.idle = now
	}
	if h.unused {
		h.unused, h.pause = false, now+int64(unusedPause)
	}
	if h.want = want; want > 0 && now < h.pause {
		h.want = 0
		p.delay(h)
	}
	switch {
	case h.granted != h.booked, (h.want == 0) != (h.wanted == 0):
		return true
	case h.want == 0:
		return false
	}
	return p.counter.first(h.key) < h.order || now-h.asked >= int64(askAgain)
}

// Answered processes a home's answer to the last request. ok is false if it is not known whether the home
// received the request.
func (p *Pool) Answered(now int64, number int, grants []message.PermitGrant, ok bool) {
	c := p.homes[number]
	if c == nil || c.asked == nil {
		return
	}
	asked := map[delivery.Limit]*message.PermitRequest{}
	for i := range c.asked {
		a := &c.asked[i]
		asked[a.Limit] = a
		h := p.holding(a.Limit)
		p.touch(h)
		if !ok {
			h.booked = unknownBooked
		}
	}
	c.asked = nil
	if !ok {
		c.retryAt = now + int64(askPause)
		return
	}
	for i := range grants {
		g := &grants[i]
		h, a := p.held[g.Limit], asked[g.Limit]
		if h != nil && a != nil {
			h.order = a.Order
		}
		if h == nil || a == nil || g.Term != p.me.Term || g.Stamp.Compare(a.Stamp) > 0 {
			p.noteGrant(g)
			continue
		}
		if h.seen == a.Stamp { // otherwise a newer grant has come meanwhile
			h.booked, h.wanted = a.Hold, g.Want
			p.noteWaiter(h, g.NextWaiter)
			p.counter.again(h.key)
		}
	}
}

// NextWake returns when Asks may have something to send without further input; ok is false if it never will.
func (p *Pool) NextWake() (at int64, ok bool) {
	consider := func(t int64) {
		if !ok || t < at {
			at, ok = t, true
		}
	}
	for _, c := range p.homes {
		if len(c.waiting) > 0 && c.asked == nil {
			consider(c.retryAt)
		}
	}
	for _, h := range p.later {
		consider(h.pause)
	}
	if len(p.touched) > 0 {
		consider(0)
	}
	return at, ok
}

// delay has the holding looked at again when its pause is over.
func (p *Pool) delay(h *holding) {
	if !h.delayed {
		h.delayed = true
		p.later = append(p.later, h)
	}
}

func (p *Pool) resume(now int64) {
	p.later = slices.DeleteFunc(p.later, func(h *holding) bool {
		if h.pause > now {
			return false
		}
		h.delayed = false
		p.touch(h)
		return true
	})
}

func (p *Pool) touch(h *holding) {
	if !h.queued {
		h.queued = true
		p.touched = append(p.touched, h)
	}
}

// touchAll touches the holdings that which selects, ordered by key.
func (p *Pool) touchAll(which func(*holding) bool) {
	var all []*holding
	for _, h := range p.held {
		if which(h) {
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b *holding) int { return a.key.Compare(b.key) })
	for _, h := range all {
		p.touch(h)
	}
}

// holding finds or makes the holding of a limit.
func (p *Pool) holding(key delivery.Limit) *holding {
	h := p.held[key]
	if h == nil {
		n := permitrecord.HomeOf(key, p.partitions)
		c := p.homes[n]
		if c == nil {
			c = &home{}
			p.homes[n] = c
		}
		h = &holding{key: key, home: c, seen: c.floor, nextWaiter: message.NoNextWaiter}
		if key.IsRate() {
			h.spent = c.spent
		}
		p.held[key] = h
	}
	return h
}

// nothing reports whether the home and the partition agree that the partition has and wants nothing.
func (h *holding) nothing() bool {
	return h.granted == 0 && h.booked == 0 && h.wanted == 0 && h.want == 0
}

// forget drops a holding that is nothing. Its newest stamp stays in home.floor, so that older grants are
// ignored.
func (p *Pool) forget(h *holding) {
	asked := slices.ContainsFunc(h.home.asked, func(a message.PermitRequest) bool { return a.Limit == h.key })
	if !h.nothing() || h.delayed || asked || p.counter.knows(h.key) {
		return
	}
	if h.seen.Compare(h.home.floor) > 0 {
		h.home.floor = h.seen
	}
	h.home.spent = max(h.home.spent, h.spent)
	delete(p.held, h.key)
}

// Left describes what the pool still holds; "" if nothing.
func (p *Pool) Left() string { return p.counter.Left() }
