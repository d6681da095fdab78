package engine

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/permit"
	"github.com/carillonhq/carillon/server/internal/permitrecord"
	"github.com/carillonhq/carillon/server/store"
)

// In a cluster the permits of a limit come from its home, a partition given by namespace and key, which may
// be on any node (docs/decisions/0032). Those of rates do so also where a node is alone:
//
//	pool --ask--> home's partition: grant --batch durable--> answer --> the pool that asked
//	pool <--deliver-- permits that became free later, once that is durable
//
// Questions and deliveries to a partition of this node are mail and calls; others go through the peers, on
// goroutines of their own, and what becomes of them comes back by mail.

// permitsWithin is the timeout for messages about permits to another node.
const permitsWithin = 2 * time.Second

// homeAnswer is the answer of the home of some limits.
type homeAnswer struct {
	term   store.Term // of the question
	home   int
	grants []message.PermitGrant
	ok     bool
}

// permitMail is mail about permits in a cluster.
type permitMail struct {
	grants    []message.PermitGrant // delivered by homes
	answers   []homeAnswer
	delivered []int // partitions of other nodes, for which a delivery has ended, well or not
}

// clusterPermits is the part of a partition that handles permits which come from homes, under one term. Only
// the lane's goroutine uses it. There is none, nil, while there is no term.
type clusterPermits struct {
	asker   message.Asker // this partition
	pool    *permit.Pool  // the permits that the partition uses itself
	home    *permit.Home  // the permits that it hands out
	seq     uint64        // the batch that holds what was handed out last
	queued  map[int][]message.PermitGrant
	m       metaWriter
	replies *replies
	box     *mailbox
	net     permitNet
}

// metaWriter is the part of a machine that writes metadata records.
type metaWriter interface {
	Begin()
	Write(records ...store.MetaRecord)
	After() uint64
}

// permitNet is how permits reach other partitions.
type permitNet struct {
	local   func(partition int) *mailbox // nil if this node does not own the partition
	peers   message.Partitions           // nil if this node is alone
	elapsed func() int64
	now     func() int64    // UTC ns
	life    context.Context // ends with the engine
	wg      *sync.WaitGroup
	log     *slog.Logger
}

// load counts the permits of attempts in force, and what the partition has handed out, at takeover.
func (c *clusterPermits) load(ctx context.Context, shard store.Shard, held []delivery.Limit) error {
	allocations, err := AllMetaRecords(ctx, shard, store.MetaQuery{Kind: store.KindAllocation})
	if err != nil {
		return err
	}
	c.pool.Load(held)
	c.tick()
	return c.home.Load(allocations)
}

// tick tells the home the time.
func (c *clusterPermits) tick() { c.home.Tick(c.net.elapsed(), c.net.now()) }

// take takes mail about permits, and hands out what has come in with time.
func (c *clusterPermits) take(in *permitMail) {
	if c == nil {
		return
	}
	c.tick()
	c.distribute()
	for _, to := range in.delivered {
		c.deliverQueued(to)
	}
	for _, a := range in.answers {
		if a.term == c.asker.Term {
			c.pool.Answered(c.net.elapsed(), a.home, a.grants, a.ok)
		}
	}
	c.pool.Hear(in.grants)
}

// recalled returns the limits of which too much is allocated, as mail has just said.
func (c *clusterPermits) recalled() []delivery.Limit {
	if c == nil {
		return nil
	}
	return c.pool.Recalled()
}

// changed looks again at the limits of a namespace; "" stands for all.
func (c *clusterPermits) changed(namespace string) {
	if c != nil {
		c.pool.Changed(namespace)
		c.tick()
		c.home.Changed(namespace)
		c.distribute()
	}
}

// poll does what no event triggers.
func (c *clusterPermits) poll() {
	if c == nil {
		return
	}
	c.pool.Poll(c.net.elapsed())
	c.tick()
	c.home.Poll()
	c.distribute()
}

// close returns the permits that are not in force, because the partition is handed over.
func (c *clusterPermits) close() {
	if c != nil {
		c.pool.Close()
		c.ask()
	}
}

// nextWake returns when the partition needs its next round, if permits need one before wake; by
// Engine.elapsed.
func (c *clusterPermits) nextWake(wake int64) int64 {
	if c == nil {
		return wake
	}
	if at, ok := c.pool.NextWake(); ok {
		wake = min(wake, max(at, c.net.elapsed()))
	}
	if at, ok := c.home.NextWake(); ok {
		wake = min(wake, at)
	}
	return wake
}

// ask requests the permits that the partition wants from their homes, and returns those that it does not
// need.
func (c *clusterPermits) ask() {
	if c == nil {
		return
	}
	for _, a := range c.pool.Asks(c.net.elapsed()) {
		switch home := c.net.local(a.Home); {
		case home != nil:
			c.askHere(home, a)
		case c.net.peers == nil:
			c.answered(a.Home, nil, notOwner(a.Home))
		default:
			c.net.wg.Go(func() { c.askThere(a) })
		}
	}
}

// askHere asks a home that this node owns.
func (c *clusterPermits) askHere(home *mailbox, a permit.Requests) {
	back := func(grants []message.PermitGrant, err error) { c.answered(a.Home, grants, err) }
	question := call{fail: func(err error) { back(nil, err) }}
	question.do = func(p *partitionRunner, _ int64) {
		p.m.Begin()
		grants, seq := p.permits.grant(c.asker, a.Asks)
		p.replies.await(seq, func(err error) { back(grants, err) })
	}
	if !home.put(func(m *mail) { m.calls = append(m.calls, question) }) {
		back(nil, errStopping())
	}
}

// askThere asks a home on another node.
func (c *clusterPermits) askThere(a permit.Requests) {
	ctx, cancel := context.WithTimeout(c.net.life, permitsWithin)
	defer cancel()
	grants, err := message.Send(ctx, c.net.peers, a.Home,
		message.RequestPermits{From: c.asker, Requests: a.Asks})
	if err != nil {
		c.net.log.Debug("the home of a limit was not asked", "partition", c.asker.Partition, "home",
			a.Home, "error", err)
	}
	c.answered(a.Home, grants, err)
}

// answered puts the answer of a home into the mailbox.
func (c *clusterPermits) answered(home int, grants []message.PermitGrant, err error) {
	c.box.put(func(m *mail) {
		m.cluster.answers = append(m.cluster.answers, homeAnswer{c.asker.Term, home, grants, err == nil})
	})
}

// grant answers a request for permits. The answer holds once batch seq is durable.
func (c *clusterPermits) grant(from message.Asker,
	asks []message.PermitRequest) (grants []message.PermitGrant, seq uint64) {
	c.tick()
	grants = c.home.Answer(from, asks)
	c.distribute()
	return grants, c.seq
}

// distribute makes durable what has been handed out, and then tells the partitions.
func (c *clusterPermits) distribute() {
	if records := c.home.Write(); len(records) > 0 {
		c.m.Begin()
		c.m.Write(records...)
		c.seq = c.m.After()
	}
	if notices := c.home.Notices(); len(notices) > 0 {
		c.replies.await(c.seq, func(err error) {
			if err == nil {
				c.deliver(notices)
			}
		})
	}
}

// deliver tells partitions of their permits, each with one message.
func (c *clusterPermits) deliver(notices []permit.Notice) {
	for len(notices) > 0 {
		to := notices[0].Partition
		n := slices.IndexFunc(notices, func(n permit.Notice) bool { return n.Partition != to })
		if n < 0 {
			n = len(notices)
		}
		grants := make([]message.PermitGrant, n)
		for i := range grants {
			grants[i] = notices[i].PermitGrant
		}
		notices = notices[n:]
		if box := c.net.local(to); box != nil {
			box.put(func(m *mail) { m.cluster.grants = append(m.cluster.grants, grants...) })
		} else if c.net.peers != nil {
			c.deliverThere(to, grants)
		}
	}
}

// deliverThere tells a partition of another node, once the delivery under way to it has ended.
func (c *clusterPermits) deliverThere(to int, grants []message.PermitGrant) {
	if later, busy := c.queued[to]; busy {
		c.queued[to] = newest(later, grants)
		return
	}
	c.queued[to] = nil
	c.net.wg.Go(func() {
		ctx, cancel := context.WithTimeout(c.net.life, permitsWithin)
		defer cancel()
		if _, err := message.Send(ctx, c.net.peers, to, message.DeliverPermits{Grants: grants}); err != nil {
			c.net.log.Debug("a partition was not told of its permits", "partition", to, "home",
				c.asker.Partition, "error", err)
		}
		c.box.put(func(m *mail) { m.cluster.delivered = append(m.cluster.delivered, to) })
	})
}

// deliverQueued tells a partition of what has gathered during the last delivery to it.
func (c *clusterPermits) deliverQueued(to int) {
	next := c.queued[to]
	delete(c.queued, to)
	if len(next) > 0 {
		c.deliverThere(to, next)
	}
}

// newest merges grants: of each limit the later one counts.
func newest(grants, more []message.PermitGrant) []message.PermitGrant {
	for _, g := range more {
		if i := slices.IndexFunc(grants, func(n message.PermitGrant) bool { return n.Limit == g.Limit }); i >= 0 {
			grants[i] = g
		} else {
			grants = append(grants, g)
		}
	}
	return grants
}

// asksAtMost bounds the limits in one request.
const asksAtMost = 4096

func serveRequestPermits(ctx context.Context, p *partitionRunner, m message.RequestPermits) (any, error) {
	parts, from, asks := len(p.e.parts), m.From, m.Requests
	switch {
	case p.e.peers == nil:
		return nil, noHomes()
	case from.Partition < 0 || from.Partition >= parts:
		return nil, carillon.Errorf(carillon.InvalidArgument, "from",
			"%d is not one of the store's partitions, 0 to %d", from.Partition, parts-1)
	case len(asks) > asksAtMost:
		return nil, carillon.Errorf(carillon.InvalidArgument, "asks", "%d are more than %d", len(asks), asksAtMost)
	}
	for i := range asks {
		if home := permitrecord.HomeOf(asks[i].Limit, parts); home != p.number {
			return nil, carillon.Errorf(carillon.InvalidArgument, "asks",
				"the home of limit %.64q is partition %d, not %d", asks[i].Key, home, p.number)
		}
	}
	return inRoundSeq(ctx, p, call{relayed: true},
		func(p *partitionRunner, _ int64) ([]message.PermitGrant, uint64, error) {
			grants, seq := p.permits.grant(from, asks)
			return grants, seq, nil
		})
}

func serveDeliverPermits(p *partitionRunner, m message.DeliverPermits) (any, error) {
	switch {
	case p.e.peers == nil:
		return nil, noHomes()
	case !p.own.holds():
		return nil, notOwner(p.number)
	case !p.box.put(func(in *mail) { in.cluster.grants = append(in.cluster.grants, m.Grants...) }):
		return nil, errStopping()
	}
	return struct{}{}, nil
}

func noHomes() error {
	return carillon.Errorf(carillon.FailedPrecondition, "", "this node counts permits by itself")
}
