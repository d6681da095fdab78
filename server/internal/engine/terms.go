package engine

import (
	"context"
	"errors"
	"time"

	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// A store may go back in time: an asynchronous standby replaces a primary whose last acknowledged writes it
// has not received. All terms end when that happens. A change that consists of several writes must not have
// some of them in the discarded history and some in the one that goes on. So a share of a batch is stored
// only in a history that also holds the batch's intent. Terms tell which history that is, because a term is
// in force in one history only. If
//
//   1. a partition reported its term T, and
//   2. a write under the coordinator's term, which wrote or found the intent, was applied after that,
//
// then T, if it is still in force, belongs to the history of that write, and so does everything written under
// T. In a put without trouble the intent itself is the write of (2). Whoever learns of a term later writes a
// probe record as the write of (2).

// errNoIntent: the store went back to before the batch was decided.
var errNoIntent = errors.New("the store has lost its last writes, and the batch with them")

func isOtherTerm(err error) bool {
	_, is := errors.AsType[*message.OtherTermError](err)
	return is
}

// learnWithin bounds how long a batch waits, before it is decided, for the terms of partitions that nobody
// owns. Their terms are asked for again before their shares are stored.
const learnWithin = 2 * time.Second

// learnTerms finds out under which terms shares may be stored once the intent is durable.
func (b *batch) learnTerms(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, learnWithin)
	defer cancel()
	parts := inOrder(b.byPart)
	_ = eachAtOnce(len(parts), func(i int) error { // those that do not answer are asked again
		term, err := b.all.termOf(ctx, parts[i])
		if err == nil {
			b.turn.take()
			b.terms[parts[i]] = term
			b.turn.give()
		}
		return err
	})
}

// termFor returns the term under which a partition's share may be stored.
func (b *batch) termFor(ctx context.Context, p *partitionRunner) (store.Term, error) {
	b.turn.take()
	defer b.turn.give()
	if term, known := b.terms[p]; known {
		return term, nil
	}
	term, err := b.all.termOf(ctx, p)
	if err != nil {
		return term, err
	}
	if err := b.confirm(ctx); err != nil {
		return term, err
	}
	b.terms[p], b.linked = term, 0 // the store may have lost the dependencies, too
	return term, nil
}

// forgetTerm records that a partition's term has changed.
func (b *batch) forgetTerm(p *partitionRunner, now store.Term) {
	b.turn.take()
	defer b.turn.give()
	delete(b.terms, p)
	b.all.noteTerm(p.number, now)
}

// confirm writes a probe record under the coordinator's term. If that term has ended and the node is alone,
// the node owns the partition again: it checks that the intent still exists, and continues under the next
// term.
func (b *batch) confirm(ctx context.Context) error {
	err := b.write(ctx, []store.MetaRecord{probeRecord(b.term)})
	if !errors.Is(err, errDeposed) || b.all.partitions.peers != nil {
		return err
	}
	if err := b.retake(ctx); err != nil {
		return err
	}
	return b.write(ctx, []store.MetaRecord{probeRecord(b.term)})
}

// retake continues under the coordinator's next term if the intent exists.
func (b *batch) retake(ctx context.Context) error {
	term, err := inRound(ctx, b.coordinator, call{of: b.id},
		func(p *partitionRunner, _ int64) (store.Term, error) { return p.own.term, nil })
	if err != nil {
		return err
	}
	q := store.MetaQuery{Kind: store.KindIntent, Prefix: partition.IntentPrefix(b.id), Limit: 1}
	found, err := b.all.partitions.reader(b.coordinator).MetaRecords(ctx, q)
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

// termOf returns a partition's term: as this node knows it, or else as the partition says, on whichever node
// it is. A node of a version before this question returns none: its shares are accepted under any term.
func (bs *batches) termOf(ctx context.Context, p *partitionRunner) (store.Term, error) {
	if term, known := bs.knownTerm(p); known {
		return term, nil
	}
	_, err := across(ctx, bs.partitions, p, message.ApplyShare{Share: &message.Share{}})
	if other, ok := errors.AsType[*message.OtherTermError](err); ok {
		bs.noteTerm(p.number, other.Term)
		return other.Term, nil
	}
	return store.Term{}, err
}

// knownTerm returns a partition's term as far as this node knows it: that of a partition of another node as
// it was reported last.
func (bs *batches) knownTerm(p *partitionRunner) (term store.Term, known bool) {
	if !bs.partitions.remote(p) {
		return p.lease.held()
	}
	bs.mu.Lock()
	defer bs.mu.Unlock()
	term, known = bs.reported[p.number]
	return term, known
}

// noteTerm records the term of a partition of another node.
func (bs *batches) noteTerm(number int, term store.Term) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	bs.reported[number] = term
}
