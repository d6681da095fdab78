package engine

import (
	"context"
	"slices"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/internal/permit"
	"github.com/carillonhq/carillon/store"
)

// In a cluster the permits of a limit come from its home, a partition given by namespace and key, which may
// be on any node. See docs/decisions/0032.

// permitsWithin is the timeout for requests about permits to another node.
const permitsWithin = 2 * time.Second

// answered is the answer of the home of some limits.
type answered struct {
	term   store.Term // of the question
	home   int
	grants []permit.Grant
	ok     bool
}

// permitMail is mail about permits in a cluster.
type permitMail struct {
	news     []permit.Grant // from homes
	answers  []answered
	told     []int    // partitions of other nodes whose notice has been delivered, or has failed
	settings []string // namespaces whose settings have changed; "" stands for all
}

// homes is the part of a cluster's partition that handles permits, under one term.
type homes struct {
	pool *permit.Pool // the permits that the partition uses itself
	lent *permit.Home // the permits that it hands out
	seq  uint64       // the batch that holds what was handed out last
	// telling holds, by partition of another node, the news to send when the current notice to it has ended.
	telling map[int][]permit.Grant
}

// newHomes makes the homes of a term.
func (p *partitionRunner) newHomes(term store.Term) *homes {
	e := p.e
	me := permit.Asker{Partition: p.number, Term: term}
	return &homes{
		pool:    permit.NewPool(me, len(e.parts), e.settings.limit, e.sendPermits),
		lent:    permit.NewHome(term, e.settings.limit),
		telling: map[int][]permit.Grant{},
	}
}

// charge counts the permits of attempts in force, and what the partition has handed out, at takeover.
func (p *partitionRunner) charge(t *claimResult, held []partition.Limit) error {
	if t.homes == nil {
		p.e.limiter.charge(p.number, held)
		return nil
	}
	grants, err := allMetaRecords(p.ctx, t.shard, store.KindAllocation)
	if err != nil {
		return err
	}
	t.homes.pool.Load(held)
	return t.homes.lent.Load(grants)
}

// hearPermits takes mail about permits.
func (p *partitionRunner) hearPermits(in *permitMail) {
	h := p.homes
	if h == nil {
		return
	}
	for _, to := range in.told {
		p.told(to)
	}
	slices.Sort(in.settings)
	for _, namespace := range slices.Compact(in.settings) {
		h.pool.Changed(namespace)
		h.lent.Changed(namespace)
		p.spread()
	}
	for _, a := range in.answers {
		if a.term == p.term {
			h.pool.Answered(p.e.elapsed(), a.home, a.grants, a.ok)
		}
	}
	h.pool.Hear(in.news)
}

// pollPermits does what no event triggers.
func (p *partitionRunner) pollPermits() {
	if p.homes == nil {
		return
	}
	p.homes.pool.Poll(p.e.elapsed())
	p.homes.lent.Poll()
	p.spread()
}

// askPermits requests the permits that the partition wants from their homes, and returns those that it does
// not need.
func (p *partitionRunner) askPermits() {
	if p.homes == nil {
		return
	}
	from := permit.Asker{Partition: p.number, Term: p.term}
	for _, a := range p.homes.pool.Asks(p.e.elapsed()) {
		if home := p.e.parts[a.Home]; home.serving.Load() {
			p.askHere(home, from, a)
		} else {
			p.e.wg.Go(func() { p.askThere(from, a) })
		}
	}
}

// askHere asks a home that this node owns.
func (p *partitionRunner) askHere(home *partitionRunner, from permit.Asker, a permit.Requests) {
	back := func(grants []permit.Grant, err error) { p.answerAsk(from.Term, a.Home, grants, err) }
	c := call{fail: func(err error) { back(nil, err) }}
	c.do = func(d *partitionRunner, _ int64) {
		d.m.Begin()
		grants, seq := d.lend(from, a.Asks)
		d.reply(seq, func(err error) { back(grants, err) })
	}
	if !home.box.put(func(m *mail) { m.calls = append(m.calls, c) }) {
		back(nil, errStopping())
	}
}

// askThere asks a home on another node.
func (p *partitionRunner) askThere(from permit.Asker, a permit.Requests) {
	ctx, cancel := context.WithTimeout(p.e.life, permitsWithin)
	defer cancel()
	grants, err := Send(ctx, p.e.cfg.Peers, a.Home, RequestPermits{from, a.Asks})
	if err != nil {
		p.e.log.Debug("the home of a limit was not asked", "partition", p.number, "home", a.Home, "error", err)
	}
	p.answerAsk(from.Term, a.Home, grants, err)
}

func (p *partitionRunner) answerAsk(term store.Term, home int, grants []permit.Grant, err error) {
	p.box.put(func(m *mail) { m.cluster.answers = append(m.cluster.answers, answered{term, home, grants, err == nil}) })
}

// lend answers a request for permits. The answer holds once batch seq is durable.
func (p *partitionRunner) lend(from permit.Asker, asks []permit.Request) (grants []permit.Grant, seq uint64) {
	grants = p.homes.lent.Answer(from, asks)
	p.spread()
	return grants, p.homes.seq
}

// spread makes durable what has been handed out, and then sends it.
func (p *partitionRunner) spread() {
	h := p.homes
	if small := h.lent.Write(); len(small) > 0 {
		p.m.Begin()
		p.m.Write(small...)
		h.seq = p.m.After()
	}
	if news := h.lent.Notices(); len(news) > 0 {
		p.reply(h.seq, func(err error) {
			if err == nil {
				p.tellPermits(h, news)
			}
		})
	}
}

// tellPermits sends partitions their news.
func (p *partitionRunner) tellPermits(h *homes, news []permit.Notice) {
	for len(news) > 0 {
		to := news[0].Partition
		n := slices.IndexFunc(news, func(n permit.Notice) bool { return n.Partition != to })
		if n < 0 {
			n = len(news)
		}
		grants := make([]permit.Grant, n)
		for i := range grants {
			grants[i] = news[i].Grant
		}
		news = news[n:]
		if d := p.e.parts[to]; d.serving.Load() {
			d.box.put(func(m *mail) { m.cluster.news = append(m.cluster.news, grants...) })
		} else {
			p.tellThere(h, to, grants)
		}
	}
}

// tellThere sends news to a partition of another node, once the notice under way to it has ended.
func (p *partitionRunner) tellThere(h *homes, to int, grants []permit.Grant) {
	if later, busy := h.telling[to]; busy {
		h.telling[to] = newest(later, grants)
		return
	}
	h.telling[to] = nil
	p.e.wg.Go(func() {
		ctx, cancel := context.WithTimeout(p.e.life, permitsWithin)
		defer cancel()
		if _, err := Send(ctx, p.e.cfg.Peers, to, DeliverPermits{grants}); err != nil {
			p.e.log.Debug("a partition was not told of its permits", "partition", to, "home", p.number, "error", err)
		}
		p.box.put(func(m *mail) { m.cluster.told = append(m.cluster.told, to) })
	})
}

// told sends what has gathered for a partition during the last notice.
func (p *partitionRunner) told(to int) {
	h := p.homes
	next := h.telling[to]
	delete(h.telling, to)
	if len(next) > 0 {
		p.tellThere(h, to, next)
	}
}

// newest merges news: of each limit the later news counts.
func newest(news, more []permit.Grant) []permit.Grant {
	for _, g := range more {
		if i := slices.IndexFunc(news, func(n permit.Grant) bool { return n.Limit == g.Limit }); i >= 0 {
			news[i] = g
		} else {
			news = append(news, g)
		}
	}
	return news
}

// givePermitsUp returns the permits that are not in force when the partition is handed over.
func (p *partitionRunner) givePermitsUp() {
	if p.homes != nil {
		p.homes.pool.Close()
		p.askPermits()
	}
}

// wakeForPermits returns when the partition needs its next round, if permits need one before wake; by
// Engine.elapsed.
func (p *partitionRunner) wakeForPermits(wake int64) int64 {
	if p.homes != nil {
		if at, ok := p.homes.pool.NextWake(); ok {
			return min(wake, max(at, p.e.elapsed()))
		}
	}
	return wake
}

// limitsChanged has the limits of a namespace checked again; "" stands for all namespaces.
func (e *Engine) limitsChanged(namespace string) {
	if e.cfg.Peers == nil {
		e.limiter.changed(namespace)
		return
	}
	for _, p := range e.parts {
		if p.serving.Load() {
			p.box.put(func(m *mail) { m.cluster.settings = append(m.cluster.settings, namespace) })
		}
	}
}

// asksAtMost bounds the limits in one request.
const asksAtMost = 4096

// grantPermits answers [RequestPermits].
func (e *Engine) grantPermits(ctx context.Context, p *partitionRunner, from permit.Asker, asks []permit.Request) (
	[]permit.Grant, error,
) {
	switch {
	case e.cfg.Peers == nil:
		return nil, noHomes()
	case from.Partition < 0 || from.Partition >= len(e.parts):
		return nil, carillon.Errorf(carillon.InvalidArgument, "from", "%d is not one of the store's partitions, 0 to %d",
			from.Partition, len(e.parts)-1)
	case len(asks) > asksAtMost:
		return nil, carillon.Errorf(carillon.InvalidArgument, "asks", "%d are more than %d", len(asks), asksAtMost)
	}
	for i := range asks {
		if home := asks[i].HomeOf(len(e.parts)); home != p.number {
			return nil, carillon.Errorf(carillon.InvalidArgument, "asks", "the home of limit %.64q is partition %d, not %d",
				asks[i].Key, home, p.number)
		}
	}
	return askSeq(ctx, p, call{relayed: true}, func(p *partitionRunner, _ int64) ([]permit.Grant, uint64, error) {
		grants, seq := p.lend(from, asks)
		return grants, seq, nil
	})
}

// takePermits takes what [DeliverPermits] brings.
func (e *Engine) takePermits(p *partitionRunner, grants []permit.Grant) error {
	switch {
	case e.cfg.Peers == nil:
		return noHomes()
	case !p.serving.Load():
		return notOwner(p.number)
	case !p.box.put(func(m *mail) { m.cluster.news = append(m.cluster.news, grants...) }):
		return errStopping()
	}
	return nil
}

func noHomes() error {
	return carillon.Errorf(carillon.FailedPrecondition, "", "this node counts permits by itself")
}

// limiterOf returns what counts the permits of a partition under a term.
func (p *partitionRunner) limiterOf(h *homes) partition.Limiter {
	if h != nil {
		return h.pool
	}
	return share{p.e.limiter, p.number}
}
