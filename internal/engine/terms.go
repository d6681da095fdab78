package engine

import (
	"context"
	"errors"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store"
)

// A store may go back in time: an asynchronous standby takes the place of a primary whose last acknowledged writes it has not
// received. All terms end with that. Whatever consists of several writes must not have some in the history that is gone and some in
// the one that goes on, so a share of a batch is stored only in the history that holds the batch's intent. That is known by terms.
// A term is in force in one history only. If
//
//  1. a partition was heard to have a term T, and
//  2. a write under the coordinator's term, the one that wrote or found the intent, was applied after that,
//
// then T, if it is still in force, is of the history of that write, and so is everything that is written under T. The intent itself
// is the write of (2) in the course of a put without troubles; whoever finds out about a term later writes a record for it.

// errNoIntent: the store went back to before the batch was decided.
var errNoIntent = errors.New("the store has lost its last writes, and the batch with them")

// OtherTerm is the error of a share that was not stored, as it is for another term of the partition.
func OtherTerm(number int, other *partition.OtherTermError) error {
	return carillon.Errorf(carillon.FailedPrecondition, "term", "partition %d: %w", number, other)
}

func isOtherTerm(err error) bool {
	_, is := errors.AsType[*partition.OtherTermError](err)
	return is
}

// learnWithin bounds how long a batch waits to be decided for the terms of partitions that nobody owns. They are asked for again
// before their shares are stored.
const learnWithin = 2 * time.Second

// learnTerms finds out under which terms shares may be stored once the intent is durable.
func (b *batch) learnTerms(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, learnWithin)
	defer cancel()
	type learned struct {
		p    *partitionRunner
		term store.Term
		err  error
	}
	terms := make(chan learned, len(b.byPart))
	for _, p := range inOrder(b.byPart) {
		if term, known := b.e.termOf(p); known {
			terms <- learned{p, term, nil}
			continue
		}
		go func() {
			term, err := b.e.askTerm(ctx, p)
			terms <- learned{p, term, err}
		}()
	}
	for range b.byPart {
		if l := <-terms; l.err == nil {
			b.terms[l.p] = l.term
		}
	}
}

// termFor is the term under which a partition's share may be stored.
func (b *batch) termFor(ctx context.Context, p *partitionRunner) (store.Term, error) {
	b.turn.take()
	defer b.turn.give()
	if term, known := b.terms[p]; known {
		return term, nil
	}
	term, known := b.e.termOf(p)
	if !known {
		var err error
		if term, err = b.e.askTerm(ctx, p); err != nil {
			return term, err
		}
	}
	if err := b.confirm(ctx); err != nil {
		return term, err
	}
	b.terms[p], b.linked = term, 0 // dependencies may be gone, too
	return term, nil
}

// forgetTerm notes that a partition's term is another one.
func (b *batch) forgetTerm(p *partitionRunner, now store.Term) {
	b.turn.take()
	defer b.turn.give()
	delete(b.terms, p)
	b.e.batches.hear(p.number, now)
}

// confirm writes under the coordinator's term. A node that is alone owns the partition again when a term has ended: it looks
// whether the intent is still there, and goes on under the next one.
func (b *batch) confirm(ctx context.Context) error {
	err := b.write(ctx, []store.MetaRecord{probeRecord(b.term)})
	if !errors.Is(err, errDeposed) || b.e.cfg.Peers != nil {
		return err
	}
	if err := b.retake(ctx); err != nil {
		return err
	}
	return b.write(ctx, []store.MetaRecord{probeRecord(b.term)})
}

// retake goes on under the coordinator's next term, if the intent is there.
func (b *batch) retake(ctx context.Context) error {
	term, err := ask(ctx, b.coordinator, call{of: b.id}, func(p *partitionRunner, _ int64) (store.Term, error) { return p.term, nil })
	if err != nil {
		return err
	}
	shard, err := b.e.reader(b.coordinator)
	if err != nil {
		return err
	}
	q := store.MetaQuery{Kind: store.KindIntent, Prefix: partition.IntentPrefix(b.id), Limit: 1}
	found, err := shard.MetaRecords(ctx, q)
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return errNoIntent
	}
	b.term = term
	clear(b.terms)
	b.retaken.Store(true)
	return nil
}

// termOf is a partition's term as far as this node knows it.
func (e *Engine) termOf(p *partitionRunner) (term store.Term, known bool) {
	if !e.remote(p) {
		if t := p.published.Load(); t != nil && !t.IsZero() {
			return *t, true
		}
		return term, false
	}
	return e.batches.lastHeard(p.number)
}

// askTerm asks a partition for its term, wherever it is. A node of before this question says none: its shares are for any.
func (e *Engine) askTerm(ctx context.Context, p *partitionRunner) (store.Term, error) {
	_, err := across(e, p, func(ps Partitions) (struct{}, error) {
		_, err := ps.ApplyShare(ctx, p.number, &partition.Share{})
		return struct{}{}, err
	})
	if other, ok := errors.AsType[*partition.OtherTermError](err); ok {
		e.batches.hear(p.number, other.Term)
		return other.Term, nil
	}
	return store.Term{}, err
}

// hear notes the term of a partition of another node.
func (b *batches) hear(number int, term store.Term) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.heard == nil {
		b.heard = map[int]store.Term{}
	}
	b.heard[number] = term
}

// lastHeard is what a partition of another node has said last.
func (b *batches) lastHeard(number int) (term store.Term, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	term, known = b.heard[number]
	return term, known
}
