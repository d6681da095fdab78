package engine

import (
	"context"
	"slices"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store"
)

// committed is how an Apply ended.
type committed struct {
	seq   uint64
	err   error
	shard store.Shard // through which; an answer for an earlier term is ignored
}

// job is a batch on its way to the store.
type commitJob struct {
	shard store.Shard
	batch *store.Batch
	seq   uint64
}

// committer makes one partition's batches durable, one after the other.
func (p *owned) committer() {
	for j := range p.commits {
		began := time.Now()
		p.applying.Store(p.e.elapsed())
		err := j.shard.Apply(context.Background(), j.batch)
		p.applying.Store(0)
		if f := p.e.cfg.Events.Committed; f != nil {
			f(len(j.batch.Puts)+len(j.batch.Deletes)+len(j.batch.Runs), time.Since(began), err)
		}
		p.box.put(func(m *mail) { m.committed = append(m.committed, committed{j.seq, err, j.shard}) })
	}
}

// commit hands the next batch to the committer, if none is on its way.
func (p *owned) commit() {
	if p.inFlight {
		return
	}
	if b, seq := p.m.Batch(); b != nil {
		p.inFlight = true
		p.commits <- commitJob{p.shard, b, seq}
	}
}

// settled takes the outcome of a commit.
func (p *owned) settled(c committed, now int64) {
	if c.shard != p.shard {
		return // of a term that is over
	}
	p.inFlight = false
	if c.err != nil {
		p.lose(c.err)
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

// answer is something to tell once a batch is durable, or has failed.
type answer struct {
	seq    uint64
	answer func(err error)
}

// reply answers once the batch of this number is durable.
func (p *owned) reply(seq uint64, f func(err error)) {
	if seq <= p.durable {
		f(nil)
		return
	}
	p.waiting = append(p.waiting, answer{seq, f})
}

// lose gives up the term: what memory holds may be ahead of the store, so it is thrown away, everybody who waits is told,
// and the partition is claimed again under a new term and loaded afresh.
func (p *owned) lose(cause error) {
	err := unavailable(cause)
	p.e.log.Error("partition lost its term", "partition", p.number, "error", cause, "outcome_unknown", err.Unknown)
	for _, w := range p.waiting {
		w.answer(err)
	}
	p.waiting, p.cause = nil, cause
	p.abandon()
	p.e.dispatcher.Forget(p.number)
}

// unavailable is what a caller is told when its change did not, or may not, have become durable.
func unavailable(cause error) *carillon.Error {
	err := carillon.Errorf(carillon.Unavailable, "", "the store did not take the change: %w", cause)
	err.Unknown = store.OutcomeOf(cause) == store.Unknown
	return err
}

// reclaimEvery is how long a partition without a term waits before it claims again.
const reclaimEvery = 500 * time.Millisecond

// reclaim tries to own the partition again.
func (p *owned) reclaim(now int64) {
	if now < p.retryAt {
		return
	}
	if err := p.claim(now); err != nil {
		p.cause, p.retryAt = err, now+int64(reclaimEvery)
		return
	}
	p.e.log.Info("partition owned again", "partition", p.number, "epoch", p.term.Epoch)
}
