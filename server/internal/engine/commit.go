package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

// group is what a lane makes durable in one step: at most one batch of each of its partitions.
//
// The commit pipeline takes a change from a round to the caller's answer:
//
//	round           the machine records the change in batch seq; the caller waits in p.replies for seq
//	  | lane.commit, when no group is in flight: takes the next batch of each partition (replies.sent = seq)
//	group           submitted to the store; the lane runs on, and the machines fill their next batches
//	  | store.Submitter, on the store's own goroutines; or applier, for a store that has none
//	store           the batches are durable, or failed, or it is unknown which
//	  | lane.committed, called by the store: puts the outcome into lane.settled and rings
//	  | lane.settle, on the lane: replies.committed(seq); machine.Committed releases what waited for the batch
//	answers         callers that wait for seq or less are answered
//
// So an acknowledged put passes between goroutines five times on the embedded store: caller, lane, committer,
// syncer, lane, caller (docs/decisions/0058).
//
// There is one group in flight for each lane. While the store works on it the next one fills, so a slow store
// gets larger groups rather than a longer queue. Nothing is answered or handed out as durable before settle
// has seen the outcome of its batch.
//
// If a batch fails, memory is ahead of the store, and the partition loses its term (lose in term.go). Callers
// whose batch was never sent (seq > sent) are told that nothing was done, and so are those of a batch that
// was certainly not applied; other callers whose batch was sent are told that the outcome is unknown, unless
// they can wait for it (final).
type group struct {
	writes  []store.Write
	numbers []int    // of the partition of each of writes
	commits []commit // one for each of writes
}

// commit is a batch in flight to the store.
type commit struct {
	p       *partitionRunner
	seq     uint64
	waiting []answer // callers whose term has ended since the batch was sent; they are told the outcome
	since   int64    // when their term ended, by Engine.elapsed
}

// commit submits the next batches of the partitions to the store, unless a group is in flight.
func (l *lane) commit() {
	if l.flying {
		return
	}
	g := &l.group
	l.sentAt = l.e.elapsed()
	for _, p := range l.parts {
		if !p.own.holds() {
			continue
		}
		switch b, seq := p.m.Batch(); {
		case b != nil:
			p.replies.sent = seq
			p.records.sent(b)
			p.figures.writing.Store(l.sentAt)
			g.writes = append(g.writes, store.Write{Shard: p.shard, Batch: b})
			g.numbers = append(g.numbers, p.number)
			g.commits = append(g.commits, commit{p: p, seq: seq})
		case p.own.is(leaving):
			p.left()
		}
	}
	if len(g.writes) > 0 {
		l.flying = true
		l.submit()
	}
}

// submit sends the group to the store, encrypted if the node has keys. What the lane keeps of it is not: who
// watches reads it.
func (l *lane) submit() {
	writes, err := l.e.stores(l.group.writes)
	if err != nil {
		l.done(err)
		return
	}
	l.way.Submit(l.group.numbers, writes, l.done)
}

// committed takes the outcome of the group in flight from the store and wakes the lane. The store calls it,
// from any goroutine.
func (l *lane) committed(err error) {
	l.e.reportCommit(l.group.writes, time.Duration(l.e.elapsed()-l.sentAt), err)
	l.settled <- err
	l.ring()
}

// reportCommit reports a commit to Events.Committed.
func (e *Engine) reportCommit(writes []store.Write, took time.Duration, err error) {
	if committed := e.cfg.Events.Committed; committed != nil {
		records := 0
		for i := range writes {
			b := writes[i].Batch
			records += len(b.Puts) + len(b.Deletes) + len(b.Runs)
		}
		committed(records, took, err)
	}
}

// Way is the way of a lane's groups to the store: Submit of a [store.Submitter] that is also told of which
// partition each batch is. It has one group of a lane at a time.
type Way interface {
	Submit(partitions []int, writes []store.Write, done func(error))
	// Holds reports whether groups are held back on the way, so that it is not the store that does not
	// answer. It must not block.
	Holds() bool
	// Quiet reports whether nothing may be handed out: while groups are held back, and for some time before
	// that, in which they go to the store. It must not block.
	Quiet() bool
}

// direct is the way to the store without anything in between.
type direct struct{ store.Submitter }

// Submit implements [Way].
func (d direct) Submit(_ []int, writes []store.Write, done func(error)) {
	d.Submitter.Submit(writes, done)
}

// Holds implements [Way].
func (direct) Holds() bool { return false }

// Quiet implements [Way].
func (direct) Quiet() bool { return false }

// applier is the [store.Submitter] of a store that has none: a goroutine that applies what is submitted.
type applier struct {
	grouper store.Grouper // nil if the store cannot group
	queue   chan submission
}

// submission is what Submit was called with.
type submission struct {
	writes []store.Write
	done   func(error)
}

// Submit implements [store.Submitter].
func (a *applier) Submit(writes []store.Write, done func(error)) { a.queue <- submission{writes, done} }

// run is the applier's goroutine. It ends when the queue is closed.
func (a *applier) run() {
	for s := range a.queue {
		s.done(apply(context.Background(), a.grouper, s.writes))
	}
}

// apply makes a group durable.
func apply(ctx context.Context, grouper store.Grouper, writes []store.Write) error {
	if len(writes) == 1 {
		return writes[0].Shard.Apply(ctx, writes[0].Batch)
	}
	return grouper.ApplyGroup(ctx, writes)
}

// stallAfter is how long a commit may be in flight before the lane stops handing out attempts.
const stallAfter = 500 * time.Millisecond

// stalled reports whether the store seems to be out of reach. An attempt handed out now might have to be
// handed out again by another owner: it would not be durable, and neither would its result.
func (l *lane) stalled() bool { return l.flying && l.e.elapsed()-l.sentAt >= int64(stallAfter) }

// cutOff reports whether the store does not answer: this lane, or the node.
func (l *lane) cutOff() bool { return l.stalled() || l.e.reach.away.Load() }

// reduced reports whether critical runs are to leave alone.
func (l *lane) reduced() bool { return l.e.cfg.FireCritical && l.cutOff() && !l.way.Holds() }

// askStore has the keeper find out whether the store is away, once for a group that is not answered.
func (l *lane) askStore() {
	if !l.asked && l.stalled() && !l.way.Holds() {
		l.asked = true
		l.e.renewNow.ring()
	}
}

// settle takes the outcome of the group in flight.
func (l *lane) settle(err error) {
	if l.stalled() {
		for _, p := range l.parts {
			p.box.ring() // it has handed out nothing while the lane stalled
		}
	}
	l.flying, l.asked = false, false
	if err != nil {
		l.e.renewNow.ring() // is it the store?
	}
	g, now := &l.group, l.e.now()
	for i := range g.commits {
		c := &g.commits[i]
		c.p.figures.writing.Store(0)
		if err == nil {
			l.e.deadLog.note(g.writes[i].Batch.Runs)
			l.e.watches.tail.durable(c.p.number, g.writes[i].Batch.MetaRecords)
		}
		if p := c.p; g.writes[i].Shard == p.shard { // otherwise the batch is of an ended term
			p.settled(c.seq, err, now)
			p.box.ring()
		} else {
			c.answer(err)
		}
		if err == nil {
			l.e.audits.lines.note(g.writes[i].Batch.MetaRecords)
		}
	}
	clear(g.writes)
	clear(g.commits) // so that what the answers hold can be freed
	g.writes, g.numbers, g.commits = g.writes[:0], g.numbers[:0], g.commits[:0]
}

// inFlight returns the partition's batch that is in flight; nil if there is none.
func (l *lane) inFlight(p *partitionRunner) *commit {
	if !l.flying {
		return nil
	}
	for i := range l.group.commits {
		if c := &l.group.commits[i]; c.p == p && l.group.writes[i].Shard == p.shard {
			return c
		}
	}
	return nil
}

// outcomeWithin is how long callers wait, after their term has ended, for the outcome of the batch in flight.
const outcomeWithin = 2 * time.Second

// giveUpWaiting answers callers whose term ended more than outcomeWithin ago that the outcome is unknown: the
// store does not answer.
func (l *lane) giveUpWaiting(now int64) {
	if !l.flying {
		return
	}
	for i := range l.group.commits {
		if c := &l.group.commits[i]; len(c.waiting) > 0 && now-c.since >= int64(outcomeWithin) {
			c.tell(leftOpen(c.p.own.cause))
		}
	}
}

// answer tells callers of an ended term the outcome of its last batch. The store judges each batch by the
// term under which it was sent, so a late outcome is as reliable as any.
func (c *commit) answer(err error) {
	switch {
	case err == nil:
		c.tell(nil)
	case store.OutcomeOf(err) == store.Unknown:
		c.tell(leftOpen(err))
	default:
		c.tell(unavailable(err))
	}
}

func (c *commit) tell(outcome error) {
	for _, w := range c.waiting {
		w.answer(outcome)
	}
	c.waiting = nil
}

// settled takes the outcome of batch seq of the partition.
func (p *partitionRunner) settled(seq uint64, err error, now int64) {
	if err != nil {
		if store.OutcomeOf(err) != store.Unknown {
			p.replies.notApplied()
		}
		p.lose(besideDamage(err))
		return
	}
	p.m.Committed(seq, now)
	p.replies.committed(seq)
	for _, j := range p.m.Jobs.Paused() {
		p.e.log.Warn("a job is paused", "namespace", j.Key.Namespace, "job", j.Key.Name, "why", j.Note)
	}
}

// besideDamage replaces the cause of a lost term when a batch, perhaps of another partition, needed a damaged
// record. Most of the refused changes do not concern that record and may be tried again. The next term leaves
// out what is damaged.
func besideDamage(err error) error {
	if !errors.Is(err, store.ErrDamaged) {
		return err
	}
	return fmt.Errorf("%w: %s", errBesideDamage, err.Error())
}

var errBesideDamage = errors.New("a batch needed a damaged record, and was not written")
