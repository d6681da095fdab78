package object

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	"github.com/carillonhq/carillon/server/store/contents"
)

// mostMoves is how often a group is tried whose log is sealed by others.
const mostMoves = 5

// apply applies batches of several partitions in one segment. The replicas stay locked until it is known what
// became of it.
func (s *Store) apply(ctx context.Context, writes []store.Write) error {
	shards, err := s.shardsOf(writes)
	if err != nil || len(shards) == 0 {
		return err
	}
	locked, err := lockAll(ctx, shards)
	if err != nil {
		return err
	}
	// Whatever the context says now, the write is not broken off.
	ctx = context.WithoutCancel(ctx)
	for range mostMoves {
		var j *journal
		if j, err = s.ready(ctx, shards); err != nil {
			break
		}
		g, failed := newGroup(shards, writes)
		if err = failed; err != nil {
			continue
		}
		if g == nil {
			break // nothing changes
		}
		if err = j.write(g); !errors.Is(err, errSealed) {
			return err // settled, or settled later: then the replicas are unlocked
		}
		if locked, err = lockAll(ctx, shards); err != nil {
			return err
		}
	}
	unlockAll(locked)
	if errors.Is(err, errSealed) {
		err = errContended
	}
	return err
}

// shardsOf checks that the shards are of this store, and have terms.
func (s *Store) shardsOf(writes []store.Write) ([]*shard, error) {
	out := make([]*shard, len(writes))
	for i, w := range writes {
		h, ok := w.Shard.(*shard)
		switch {
		case !ok || h.s != s:
			return nil, store.ErrOtherStore
		case h.term.IsZero():
			return nil, store.ErrFenced
		}
		out[i] = h
	}
	return out, nil
}

// lockAll locks the replicas of some shards, in the order of their numbers.
func lockAll(ctx context.Context, shards []*shard) ([]*replica, error) {
	all := make([]*replica, len(shards))
	for i, h := range shards {
		all[i] = h.r
	}
	return lockReplicas(ctx, all)
}

func lockReplicas(ctx context.Context, all []*replica) ([]*replica, error) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b *replica) int { return cmp.Compare(a.number, b.number) })
	all = slices.Compact(all)
	for i, r := range all {
		if err := r.turn.Take(ctx, r.s.closing); err != nil {
			unlockAll(all[:i])
			return nil, err
		}
	}
	return all, nil
}

func unlockAll(all []*replica) {
	for _, r := range all {
		r.turn.Give()
	}
}

// newGroup makes what is written of the batches, and what the partitions hold after it. The caller holds the
// locks, which its give gives back. It is nil if there is nothing to write: the batches change nothing,
// such as an expiry of runs of which none is old enough, and nobody else can own the partitions.
func newGroup(shards []*shard, writes []store.Write) (*group, error) {
	g, was, next := &group{}, make([]*version, len(shards)), make([]version, len(shards))
	idle := true
	for i, h := range shards {
		was[i] = h.r.is.Load()
		if was[i] == nil { // the right to write was just lost
			return nil, errSealed
		}
		next[i] = *was[i]
		b, data := writes[i].Batch, codec.AppendBatch(nil, writes[i].Batch)
		if was[i].holds == nil {
			idle = false // what it changes is not known
		} else {
			touched := contents.NewTouched()
			next[i].holds = was[i].holds.Copy()
			next[i].holds.Change(b, touched)
			idle = idle && len(touched.Records)+len(touched.Runs)+len(b.MetaRecords) == 0 && h.r.own() != nil
		}
		next[i].late = h.r.latest(was[i], data)
		g.parts = append(g.parts, part{h.r.number, h.term, data})
		g.size += len(data) + 40
	}
	if idle {
		return nil, nil
	}
	g.settle = func(at place, err error) {
		for i, h := range shards {
			if err == nil {
				next[i].at.place = at
				next[i].since += int64(len(g.parts[i].batch))
				next[i].segments++
				h.r.is.CompareAndSwap(was[i], &next[i])
			}
		}
	}
	g.give = func() {
		for _, h := range shards {
			h.r.turn.Give()
		}
	}
	return g, nil
}

// ready returns the journal in which all shards may be written, with their versions known. If one of them may
// not, it asks whether its term is in force, and then has it go on in the journal.
func (s *Store) ready(ctx context.Context, shards []*shard) (*journal, error) {
	j := s.journals.live()
	works := func(h *shard) bool {
		right := h.r.hold.Load()
		return right.works(h.term, j) && right.fresh.Load() && h.r.is.Load() != nil
	}
	if !slices.ContainsFunc(shards, func(h *shard) bool { return !works(h) }) {
		return j, nil
	}
	fenced := false
	w := s.view()
	var err error
	w.root, err = s.roots.change(ctx, func(ctx context.Context, r *root) (changed bool, err error) {
		fenced = slices.ContainsFunc(shards, func(h *shard) bool {
			return !r.Partitions[h.r.number].inForce(h.term)
		})
		if fenced {
			return false, nil
		}
		j = s.journals.live()
		for _, h := range shards {
			moved, err := s.moveTo(ctx, r, h.r.number, j, h.term.Epoch)
			if err != nil {
				return false, err
			}
			changed = changed || moved
		}
		return changed, nil
	}, func() {
		if fenced {
			return
		}
		for _, h := range shards {
			if !h.r.hold.Load().works(h.term, j) {
				h.r.hold.Store(&hold{term: h.term, in: j})
			}
		}
	})
	switch {
	case err != nil:
		return nil, err
	case fenced:
		return nil, store.ErrFenced
	}
	for _, h := range shards {
		if _, err := h.r.advance(ctx, w); err != nil {
			return nil, err
		}
	}
	return j, nil
}

// moveTo has a partition go on in a journal, under a term's epoch, and reports whether it did not before. It
// seals the log in which it went on.
func (s *Store) moveTo(ctx context.Context, r *root, number int, j *journal, epoch uint64) (bool, error) {
	p := &r.Partitions[number]
	switch from := p.open(); from {
	case j.id:
		return false, nil
	case "":
	default:
		if err := s.logs.seal(ctx, r, from, j.id); err != nil {
			return false, err
		}
	}
	from := j.settled.Load()
	p.Spans = append(p.Spans, span{Log: j.id, By: epoch, From: from})
	if _, ok := r.Logs[j.id]; !ok {
		r.Logs[j.id] = logState{Next: from}
	}
	return true, nil
}
