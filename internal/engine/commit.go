package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/store"
)

// group is what the partitions of a lane make durable together: at most one batch of each.
type group struct {
	writes  []store.Write
	commits []commit // one for each write
}

// commit is a batch on its way to the store.
type commit struct {
	p       *partitionRunner
	seq     uint64
	err     error    // how it ended
	waiting []answer // of callers whose term has ended since it left: they hear how it ended
	since   int64    // when their term ended, by Engine.elapsed
}

// commit sends the next batches of all partitions to the committer, if none is on its way.
func (l *lane) commit() {
	if l.flying {
		return
	}
	g := &l.group
	for _, p := range l.parts {
		if p.m == nil {
			continue
		}
		switch b, seq := p.m.Batch(); {
		case b != nil:
			p.sent = seq
			p.noteChanged(b)
			g.writes = append(g.writes, store.Write{Shard: p.shard, Batch: b})
			g.commits = append(g.commits, commit{p: p, seq: seq})
		case p.leaving:
			p.left()
		}
	}
	if len(g.writes) > 0 {
		l.flying, l.left = true, l.e.elapsed()
		l.groups <- g
	}
}

// committer makes one group after the other durable.
func (l *lane) committer() {
	for g := range l.groups {
		since := l.e.elapsed()
		for i := range g.commits {
			g.commits[i].p.applying.Store(since)
		}
		l.apply(context.Background(), g.writes, func(i int, err error) { g.commits[i].err = err })
		for i := range g.commits {
			g.commits[i].p.applying.Store(0)
		}
		l.settled <- g
		l.ring()
	}
}

// apply writes batches: together if the store can, otherwise one after the other. It tells how each ended.
func (l *lane) apply(ctx context.Context, writes []store.Write, ended func(i int, err error)) {
	if l.grouper == nil || len(writes) == 1 {
		for i := range writes {
			ended(i, l.timed(writes[i:i+1], func() error { return writes[i].Shard.Apply(ctx, writes[i].Batch) }))
		}
		return
	}
	if len(writes) > 0 {
		err := l.timed(writes, func() error { return l.grouper.ApplyGroup(ctx, writes) })
		for i := range writes {
			ended(i, err)
		}
	}
}

// timed does one commit and tells of it.
func (l *lane) timed(writes []store.Write, f func() error) error {
	began := time.Now()
	err := f()
	if committed := l.e.cfg.Events.Committed; committed != nil {
		records := 0
		for i := range writes {
			b := writes[i].Batch
			records += len(b.Puts) + len(b.Deletes) + len(b.Runs)
		}
		committed(records, time.Since(began), err)
	}
	return err
}

// stallAfter is for how long a commit may be on its way until nothing more is handed out.
const stallAfter = 500 * time.Millisecond

// stalled reports whether the store seems to be out of reach. What is handed out then may have to be handed out again by
// somebody else: it is not durable that it was, and its results cannot be.
func (l *lane) stalled() bool { return l.flying && l.e.elapsed()-l.left >= int64(stallAfter) }

// settle takes the outcome of the group that was on its way.
func (l *lane) settle(g *group) {
	if l.stalled() {
		for _, p := range l.parts {
			p.box.ring() // it has handed out nothing meanwhile
		}
	}
	l.flying = false
	now := l.e.now()
	for i := range g.commits {
		c := &g.commits[i]
		if p := c.p; g.writes[i].Shard == p.shard { // otherwise of a term that is over
			p.settled(c, now)
			p.box.ring()
		} else {
			c.answer()
		}
	}
	clear(g.writes)
	clear(g.commits) // and let go of what the answers hold
	g.writes, g.commits = g.writes[:0], g.commits[:0]
}

// inFlight is the partition's batch that is on its way to the store; nil if there is none.
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

// outcomeWithin is how long after the end of a term its callers wait for the outcome of the batch that is on its way.
const outcomeWithin = 2 * time.Second

// giveUpWaiting tells callers whose term has ended a while ago that the outcome is not known: the store does not answer.
func (l *lane) giveUpWaiting(now int64) {
	if !l.flying {
		return
	}
	for i := range l.group.commits {
		if c := &l.group.commits[i]; len(c.waiting) > 0 && now-c.since >= int64(outcomeWithin) {
			for _, w := range c.waiting {
				w.answer(leftOpen(c.p.cause))
			}
			c.waiting = nil
		}
	}
}

// answer tells callers of a term that is over how its last batch ended. The store judges each batch by the term it was sent under,
// so that a late answer is as true as any.
func (c *commit) answer() {
	var failed error
	if c.err != nil {
		e := unavailable(c.err)
		if store.OutcomeOf(c.err) == store.Unknown {
			e = leftOpen(c.err)
		}
		failed = e
	}
	for _, w := range c.waiting {
		w.answer(failed)
	}
	c.waiting = nil
}

// settled takes the outcome of a batch.
func (p *partitionRunner) settled(c *commit, now int64) {
	if c.err != nil {
		if store.OutcomeOf(c.err) != store.Unknown {
			p.sent = p.durable // it certainly was not applied
		}
		p.lose(besideDamage(c.err))
		return
	}
	p.m.Committed(c.seq, now)
	p.durable = c.seq
	n := 0
	for n < len(p.waiting) && p.waiting[n].seq <= c.seq {
		p.waiting[n].answer(nil)
		n++
	}
	p.waiting = slices.Delete(p.waiting, 0, n) // which lets go of what the answers hold
}

// besideDamage is the cause of a lost term where a batch, perhaps of another partition, needed what is damaged: most of what is
// refused is not about that, and may be tried again. The next term leaves out what is lost.
func besideDamage(err error) error {
	if !errors.Is(err, store.ErrDamaged) {
		return err
	}
	return fmt.Errorf("%w: %s", errBesideDamage, err.Error())
}

var errBesideDamage = errors.New("a batch needed a damaged record, and was not written")

// answer is something to tell once a batch is durable, or has failed.
type answer struct {
	seq    uint64
	answer func(err error)
	final  bool // it waits for the outcome of a batch that is on its way, even if the term ends meanwhile
}

// reply answers once the batch of this number is durable. If the term ends before, it says so at once.
func (p *partitionRunner) reply(seq uint64, f func(err error)) {
	p.answerWith(answer{seq: seq, answer: f})
}

// replyFinally is reply for a caller who can wait for the outcome of what is on its way when the term ends.
func (p *partitionRunner) replyFinally(seq uint64, f func(err error)) {
	p.answerWith(answer{seq: seq, answer: f, final: true})
}

func (p *partitionRunner) answerWith(a answer) {
	if a.seq <= p.durable {
		a.answer(nil)
		return
	}
	p.waiting = append(p.waiting, a)
}
