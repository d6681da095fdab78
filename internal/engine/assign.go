package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store"
)

// Assign sets which partitions this node is to own from now on. It does not wait. Partitions that the node
// lacks are claimed, repeatedly while another node holds them; those that it should not have are handed over
// (docs/decisions/0029).
func (e *Engine) Assign(parts []int) {
	e.assigning.Lock()
	defer e.assigning.Unlock()
	for _, p := range e.parts {
		if want := slices.Contains(parts, p.number); p.wanted.Swap(want) != want {
			p.box.ring()
			p.lane.ring()
		}
	}
}

// Holdings returns the partitions that this node holds under a term, including those that it is still
// loading.
func (e *Engine) Holdings() []store.Holding {
	var held []store.Holding
	for _, p := range e.parts {
		if t := p.published.Load(); t != nil && !t.IsZero() {
			held = append(held, store.Holding{Partition: p.number, Term: *t})
		}
	}
	return held
}

// Ready returns an error that names a partition which this node is to own and does not own; nil if there is
// none.
func (e *Engine) Ready() error {
	for _, p := range e.parts {
		if p.wanted.Load() && !p.serving.Load() {
			return carillon.Errorf(carillon.Unavailable, "", "partition %d is not owned", p.number)
		}
	}
	return nil
}

// leave begins to hand the partition over: nothing more is handed out, and what memory holds is sent to the
// store.
func (p *partitionRunner) leave() {
	p.leaving, p.leftAt = true, p.e.elapsed()
	p.m.HandOver()
	p.givePermitsUp()
	p.rest()
	p.leaveOrphans()
	p.e.dispatcher.Forget(p.number)
}

// leaveOrphans keeps a list of the attempts in force, whose consumers the next owner may be unable to reach.
// An attempt that the store does not know of is cancelled at once, since the next owner hands its run out
// again. The others are cancelled when their leases end: an attempt that is never answered would keep its
// slot for ever.
func (p *partitionRunner) leaveOrphans() {
	now, elapsed := p.e.now(), p.e.elapsed()
	known := map[partition.Token]*orphan{}
	for i := range p.orphans {
		known[p.orphans[i].tok] = &p.orphans[i]
	}
	var more []orphan
	var unknown []partition.Cancel
	for _, h := range p.m.Handed() {
		tok, _ := p.e.token(h.Token)
		until := elapsed + max(0, h.Until-now) + int64(orphanGrace)
		switch b := known[tok]; {
		case !h.Written:
			unknown = append(unknown, h.Cancel)
		case b != nil:
			b.until = max(b.until, until)
		default:
			more = append(more, orphan{Cancel: h.Cancel, tok: tok, until: until, heartbeats: h.Queue.Kind == streamKind && h.Here})
		}
	}
	p.beaten = elapsed
	p.orphans = append(p.orphans, more...)
	slices.SortStableFunc(p.orphans, func(a, b orphan) int { return cmp.Compare(a.until, b.until) })
	if len(unknown) > 0 {
		p.e.dispatcher.Cancel(unknown)
	}
}

// orphan is an attempt of an ended term that a consumer of this node may still run.
type orphan struct {
	partition.Cancel
	tok   partition.Token
	until int64 // when it is cancelled, by Engine.elapsed
	// Its consumer is here and sends no heartbeats but reports the end of its stream; until then this node
	// sends them.
	heartbeats bool
}

// streamKind is the kind of queues whose consumers hold attempts as long as their streams last, and send no
// heartbeats.
const streamKind = "dapr"

// heartbeatOrphans sends heartbeats for orphans whose streams are still open to the owner of the partition,
// even if that is this node again. Otherwise the owner would soon hand those runs out again.
func (p *partitionRunner) heartbeatOrphans(now int64) {
	if len(p.orphans) == 0 || p.leaving || p.m == nil && !p.elsewhere() || now-p.beaten < int64(partition.KeptHeartbeatInterval) {
		return
	}
	p.beaten = now
	p.box.put(func(m *mail) {
		for i := range p.orphans {
			if b := &p.orphans[i]; b.heartbeats {
				m.heartbeats = append(m.heartbeats, heartbeat{tok: b.tok, from: refuted{p}, text: b.Token})
			}
		}
	})
}

// refuted learns which orphans that this node sends heartbeats for are no longer in force.
type refuted struct{ p *partitionRunner }

// Accepted implements [partition.Reporter].
func (refuted) Accepted(string) {}

// Stale implements [partition.Reporter].
func (r refuted) Stale(token string) {
	r.p.box.keep(func(m *mail) { m.refuted = append(m.refuted, token) })
}

// settleOrphans stops the heartbeats for orphans whose consumers sent a final report, and for those that are
// not in force. They stay in the list until their time is over: the consumer that sent the report may have
// got the attempt from the next owner, while another consumer here still runs it.
func (p *partitionRunner) settleOrphans(in *mail) {
	if len(p.orphans) == 0 || len(in.reports)+len(in.losses)+len(in.refuted) == 0 {
		return
	}
	over := map[partition.Token]bool{}
	for i := range in.reports {
		if r := &in.reports[i]; r.Outcome != carillon.OutcomeProgress && !r.Async {
			over[r.tok] = true
		}
	}
	for i := range in.losses {
		over[in.losses[i].tok] = true
	}
	stale := setOf(in.refuted)
	for i := range p.orphans {
		b := &p.orphans[i]
		b.heartbeats = b.heartbeats && !over[b.tok] && !stale[b.Token]
	}
}

// orphanGrace is how long after the end of its lease an orphan is cancelled.
const orphanGrace = 5 * time.Second

// endOrphan cancels orphans whose time is over. An attempt that was made again under the same token and is in
// force here is left alone: its own term ends it.
func (p *partitionRunner) endOrphan(now int64) {
	n := 0
	for ; n < len(p.orphans) && p.orphans[n].until <= now; n++ {
		if b := &p.orphans[n]; p.m == nil || !p.m.InForce(b.tok) {
			p.e.dispatcher.Cancel([]partition.Cancel{b.Cancel})
		}
	}
	p.orphans = slices.Delete(p.orphans, 0, n)
}

// left ends the hand-over: everything that memory held is durable.
func (p *partitionRunner) left() {
	over := p.pendingRelease(p.term)
	for _, w := range p.waiting {
		w.answer(notOwner(p.number))
	}
	p.drop(ErrNotOwner)
	p.away = true
	p.e.claims.leave(over)
	took := time.Duration(p.e.elapsed() - p.leftAt)
	p.e.log.Debug("partition handed over", "partition", p.number, "epoch", over.term.Epoch, "took", took)
	p.e.note(tiding{p.number, took, kind{transition: isLeft}})
	if told := p.e.cfg.Events.HandedOver; told != nil {
		told(p.number, took)
	}
}

// drop forgets the machine and the term.
func (p *partitionRunner) drop(cause error) {
	p.m, p.homes, p.shard, p.waiting, p.cause, p.leaving = nil, nil, nil, nil, cause, false
	p.serving.Store(false)
	p.stats.Store(&partition.Stats{})
	p.depths.Store(nil)
	p.abandon()
	p.e.dispatcher.Forget(p.number)
	p.box.ring() // calls whose records were being read can be refused now
}

// notOwner returns the error for a request to a partition that this node does not own.
func notOwner(number int) *carillon.Error {
	return carillon.Errorf(carillon.Unavailable, "", "partition %d: %w", number, ErrNotOwner)
}
