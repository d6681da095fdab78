package cassandra

import (
	"context"
	"errors"
	"fmt"

	"github.com/carillonhq/carillon/server/store"
)

// errLost says that a partition has a greater term than the one that is to be put in force.
var errLost = errors.New("another node has claimed the partition")

// guard sets the number of the last batch, on condition that a version is still current: its last segment has
// no next one, is under its term, and ends with its last batch.
func (r *replica) guard(v *version, last int64) statement {
	return statement{`UPDATE $changes SET last = ? WHERE partition = ? AND segment = ? ` +
		`IF epoch = ? AND nonce = ? AND last = ? AND next = null`,
		[]any{last, r.number, v.tail().number, int64(v.term.Epoch), int64(v.term.Nonce), v.last}}
}

// fence puts a term in force: it becomes that of the log's last segment. From then on no batch of an older
// one can be added. before is who owned the partition. It reports whether it began the log, for which nothing
// could be compared.
func (r *replica) fence(ctx context.Context, term store.Term, before *owner) (began bool, err error) {
	if before.first == nil {
		if began, err = r.begin(ctx, term); began || err != nil {
			return began, err
		}
	}
	r.hint.CompareAndSwap(0, int64(before.firstSegment()))
	for range mostTries {
		t, err := r.findTail(ctx)
		if err != nil {
			return false, failure(err)
		}
		if !t.exists {
			if began, err = r.begin(ctx, term); began || err != nil {
				return began, err
			}
			continue // somebody else has
		}
		switch {
		case t.term == term: // it was put in force by a call that was told otherwise
			return t.segment == 1, nil
		case t.term.Epoch >= term.Epoch:
			return false, errLost
		}
		if done, err := r.swap(ctx, &t, term); done || err != nil {
			return false, err
		}
	}
	return false, failure(errContended)
}

// begin begins the log of a partition that nobody has written to.
func (r *replica) begin(ctx context.Context, term store.Term) (bool, error) {
	began, err := r.s.wire.cas(ctx, statement{`UPDATE $changes SET epoch = ?, nonce = ?, start = 0, last = 0 ` +
		`WHERE partition = ? AND segment = 1 IF epoch = null AND start = null`,
		[]any{int64(term.Epoch), int64(term.Nonce), r.number}})
	if err != nil {
		return false, failure(err)
	}
	return began, nil
}

// swap puts a term in the place of the one that the last segment has, unless it is not the last any more.
func (r *replica) swap(ctx context.Context, t *tail, term store.Term) (bool, error) {
	done, err := r.s.wire.cas(ctx, statement{`UPDATE $changes SET epoch = ?, nonce = ? WHERE partition = ? AND segment = ? ` +
		`IF epoch = ? AND nonce = ? AND next = null`,
		[]any{int64(term.Epoch), int64(term.Nonce), r.number, t.segment, int64(t.term.Epoch), int64(t.term.Nonce)}})
	if err != nil {
		return false, failure(err)
	}
	return done, nil
}

// unfence takes a term out of force, if it is: nobody's is then.
func (r *replica) unfence(ctx context.Context, term store.Term) error {
	for range mostTries {
		t, err := r.findTail(ctx)
		if err != nil {
			return failure(err)
		}
		if !t.exists || t.term != term {
			return nil
		}
		if done, err := r.swap(ctx, &t, store.Term{Epoch: term.Epoch}); done || err != nil {
			return err
		}
	}
	return failure(errContended)
}

// roll begins the next segment, for the owner of a version. It does two things:
//
//  1. it writes what the next segment says of itself: the term, the last number, the settings
//  2. it writes into the last segment that the next one goes on
//
// The second is the one that counts. Before it the next segment is nobody's, and an owner with a greater
// epoch overwrites what it says; from then on nothing can be added to the one before. An owner that was
// fenced overwrites nothing of a greater epoch: that may be the end of the log by now.
func (r *replica) roll(ctx context.Context, v *version) (*version, error) {
	next := v.tail().number + 1
	if err := r.prepareNext(ctx, v, next); err != nil {
		return nil, err
	}
	seal := r.guard(v, v.last)
	seal.text = `UPDATE $changes SET last = ?, next = ? ` + seal.text[len(`UPDATE $changes SET last = ? `):]
	seal.values = append([]any{v.last, next}, seal.values[1:]...)
	done, err := r.s.wire.cas(ctx, seal)
	if err != nil {
		return nil, applyFailure(fmt.Errorf("end segment %d of partition %d: %w", next-1, r.number, err))
	}
	if !done {
		t, err := r.readTail(ctx, r.s.wire.levels.serial, next-1)
		if err != nil {
			return nil, unknown(err)
		}
		if t.term != v.term || t.next != next { // else a call has done it that was told otherwise
			return nil, store.ErrFenced
		}
	}
	rolled := *v
	rolled.segments = append(append([]segment(nil), v.segments...), segment{number: next})
	rolled.id, rolled.used = 0, v.last
	r.is.Store(&rolled)
	r.hint.Store(int64(next))
	return &rolled, nil
}

// prepareNext does the first step of roll. Until the second one it counts for nothing.
func (r *replica) prepareNext(ctx context.Context, v *version, next int) error {
	t, err := r.readTail(ctx, r.s.wire.levels.regular, next)
	if err != nil {
		return failure(err)
	}
	if t.exists && t.term != v.term && t.term.Epoch >= v.term.Epoch {
		return store.ErrFenced
	}
	settings := map[string][]byte{}
	for _, kind := range settingsKinds {
		for _, m := range v.holds.Gather(kind) {
			settings[string(metaKey(m.Kind, m.Key))] = m.Value
		}
	}
	prepare := statement{`UPDATE $changes SET epoch = ?, nonce = ?, start = ?, last = ?, settings = ? ` +
		`WHERE partition = ? AND segment = ? IF epoch = ? AND nonce = ? AND last = ? AND next = null`,
		[]any{int64(v.term.Epoch), int64(v.term.Nonce), v.last, v.last, settings, r.number, next, nil, nil, nil}}
	if t.exists { // of somebody who did not come to the second step
		copy(prepare.values[7:], []any{int64(t.term.Epoch), int64(t.term.Nonce), t.last})
	}
	done, err := r.s.wire.cas(ctx, prepare)
	if err != nil {
		return failure(fmt.Errorf("begin segment %d of partition %d: %w", next, r.number, err))
	}
	if !done {
		if t, err = r.readTail(ctx, r.s.wire.levels.serial, next); err != nil {
			return failure(err)
		}
		if t.term != v.term || t.last != v.last || t.next != 0 { // else a call has done it that was told otherwise
			return store.ErrFenced
		}
	}
	return nil
}
