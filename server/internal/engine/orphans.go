package engine

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// orphans are the attempts of a partition's ended terms that consumers of this node may still run, ordered by
// when they end. The next owner may be unable to reach those consumers. So the node that handed the attempts
// out goes on to look after them, whoever owns the partition: it sends heartbeats for consumers that send
// none themselves, and cancels an attempt when its time is over, since one that is never answered would keep
// its slot for ever. The lane's goroutine uses them.
type orphans struct {
	all    []orphan
	beatAt int64 // when heartbeats were last sent for them, by Engine.elapsed

	overtime atomic.Pointer[overtime] // what still hands attempts out, of the last term; nil: nothing
}

// orphan is an attempt of an ended term that a consumer of this node may still run.
type orphan struct {
	delivery.Cancel
	tok   message.Token
	until int64 // when it is cancelled, by Engine.elapsed
	// Its consumer is here and sends no heartbeats but reports the end of its stream; until then this node
	// sends them.
	heartbeats bool
}

// streamKind is the kind of queues whose consumers hold attempts as long as their streams last, and send no
// heartbeats.
const streamKind = "dapr"

// orphanGrace is how long after the end of its lease an orphan is cancelled.
const orphanGrace = 5 * time.Second

// add adds the attempts that are in force when a term ends. now is by Engine.elapsed, clock the node's clock.
// It returns those that the store does not know of: they are to be cancelled at once, since the next owner
// hands their runs out again.
func (o *orphans) add(inForce []partition.Handed, token func(string) message.Token, now,
	clock int64) (unknown []delivery.Cancel) {
	known := map[message.Token]*orphan{}
	for i := range o.all {
		known[o.all[i].tok] = &o.all[i]
	}
	var more []orphan
	for _, h := range inForce {
		tok := token(h.Token)
		until := now + max(0, h.Until-clock) + int64(orphanGrace)
		switch b := known[tok]; {
		case !h.Written:
			unknown = append(unknown, h.Cancel)
		case b != nil:
			b.until = max(b.until, until)
		default:
			more = append(more, orphan{Cancel: h.Cancel, tok: tok, until: until,
				heartbeats: h.Queue.Kind == streamKind && h.Here})
		}
	}
	// At once: the next owner, which may be this node again, may have taken back what waits here to be received.
	o.beatAt = now - int64(partition.KeptHeartbeatInterval)
	o.all = append(o.all, more...)
	slices.SortStableFunc(o.all, func(a, b orphan) int { return cmp.Compare(a.until, b.until) })
	return unknown
}

// heartbeats returns the heartbeats to send, if it is time: those for orphans whose streams are still open.
// Without them the partition's owner, which may be this node again, would soon hand those runs out again.
func (o *orphans) heartbeats(now int64, from delivery.Reporter) (beats []heartbeat) {
	if len(o.all) == 0 || now-o.beatAt < int64(partition.KeptHeartbeatInterval) {
		return nil
	}
	o.beatAt = now
	for i := range o.all {
		if b := &o.all[i]; b.heartbeats {
			beats = append(beats, heartbeat{tok: b.tok, from: from, text: b.Token})
		}
	}
	return beats
}

// settle stops the heartbeats for orphans whose consumers sent a final report, and for those that are not in
// force. They stay in the list until their time is over: the consumer that sent the report may have got the
// attempt from the next owner, while another consumer here still runs it. It returns those that are not in
// force, to be cancelled: a consumer that has not received one yet is not to get it any more.
func (o *orphans) settle(in *mail) (stale []delivery.Cancel) {
	if len(o.all) == 0 || len(in.reports)+len(in.losses)+len(in.staleOrphans) == 0 {
		return nil
	}
	over := map[message.Token]bool{}
	for i := range in.reports {
		if r := &in.reports[i]; r.Outcome != carillon.OutcomeProgress && !r.Async {
			over[r.tok] = true
		}
	}
	for i := range in.losses {
		over[in.losses[i].tok] = true
	}
	refused := setOf(in.staleOrphans)
	for i := range o.all {
		b := &o.all[i]
		if b.heartbeats && refused[b.Token] {
			stale = append(stale, b.Cancel)
		}
		b.heartbeats = b.heartbeats && !over[b.tok] && !refused[b.Token]
	}
	return stale
}

// end removes the orphans whose time is over, and returns those to cancel. An attempt that was made again
// under the same token and is in force here is left alone: its own term ends it.
func (o *orphans) end(now int64, inForce func(message.Token) bool) (over []delivery.Cancel) {
	n := 0
	for ; n < len(o.all) && o.all[n].until <= now; n++ {
		if b := &o.all[n]; !inForce(b.tok) {
			over = append(over, b.Cancel)
		}
	}
	o.all = slices.Delete(o.all, 0, n)
	return over
}

// nextEnd returns when the next orphan's time is over; ok is false if there is none.
func (o *orphans) nextEnd() (at int64, ok bool) {
	if len(o.all) == 0 {
		return 0, false
	}
	return o.all[0].until, true
}

// orphanReporter learns which orphans that this node sends heartbeats for are not in force.
type orphanReporter struct{ box *mailbox }

// Accepted implements [delivery.Reporter].
func (orphanReporter) Accepted(string) {}

// Stale implements [delivery.Reporter].
func (r orphanReporter) Stale(token string) {
	r.box.put(func(m *mail) { m.staleOrphans = append(m.staleOrphans, token) })
}

// keepOrphans notes the attempts in force, because the term of a machine ends.
func (p *partitionRunner) keepOrphans(m *partition.Machine) {
	if unknown := noteOrphans(p, m); len(unknown) > 0 {
		p.e.dispatcher.Cancel(unknown)
	}
}

// noteOrphans notes the attempts in force, and returns those that cannot go on.
func noteOrphans(p *partitionRunner, m *partition.Machine) (unknown []delivery.Cancel) {
	token := func(text string) message.Token { tok, _ := p.e.token(text); return tok }
	inForce := m.Attempts.Handed()
	if p.e.cfg.FireCritical { // they leave although the store does not know of them, and so they go on
		for i := range inForce {
			inForce[i].Written = inForce[i].Written || inForce[i].Critical
		}
	}
	return p.orphans.add(inForce, token, p.e.elapsed(), p.e.now())
}

// settleOrphans takes what has come in about orphans.
func (p *partitionRunner) settleOrphans(in *mail) {
	if stale := p.orphans.settle(in); len(stale) > 0 {
		p.e.dispatcher.Cancel(stale)
	}
}

// tendOrphans cancels orphans and sends heartbeats for them, when it is time.
func (p *partitionRunner) tendOrphans(now int64) {
	if len(p.orphans.all) == 0 {
		return
	}
	inForce := func(tok message.Token) bool { return p.own.holds() && p.m.Attempts.InForce(tok) }
	if over := p.orphans.end(now, inForce); len(over) > 0 {
		p.e.dispatcher.Cancel(over)
	}
	if !p.own.is(owned) && (p.own.is(leaving) || !p.own.elsewhere()) {
		return // nobody could take heartbeats now
	}
	if beats := p.orphans.heartbeats(now, orphanReporter{p.box}); len(beats) > 0 {
		p.box.put(func(m *mail) { m.heartbeats = append(m.heartbeats, beats...) })
	}
}
