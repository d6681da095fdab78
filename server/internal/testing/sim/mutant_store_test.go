package sim_test

import (
	"context"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/sim"
	"github.com/carillonhq/carillon/server/store"
)

// disk plants a bug in what is durable.
func disk(f func(p *sim.Plan, s store.Store) func(store.Store) store.Store) func(*sim.Plan) sim.Mutant {
	return func(p *sim.Plan) sim.Mutant {
		return sim.Mutant{Disk: func(s store.Store) store.Store { return f(p, s)(s) }}
	}
}

// shards is a store whose shards are not what they were.
type shards struct {
	store.Store
	wrap func(p int, term store.Term, s store.Shard) store.Shard
}

// Shard is for [store.Store].
func (s shards) Shard(p int, term store.Term) (store.Shard, error) {
	sh, err := s.Store.Shard(p, term)
	if err != nil || term.IsZero() {
		return sh, err
	}
	return s.wrap(p, term, sh), nil
}

// apply is a shard that applies in its own way.
type apply struct {
	store.Shard
	f func(ctx context.Context, b *store.Batch) error
}

// Apply is for [store.Shard].
func (a *apply) Apply(ctx context.Context, b *store.Batch) error { return a.f(ctx, b) }

// applying is a store that applies in its own way.
func applying(f func(ctx context.Context, p int, sh store.Shard,
	b *store.Batch) error) func(store.Store) store.Store {
	return func(s store.Store) store.Store {
		return shards{s, func(p int, _ store.Term, sh store.Shard) store.Shard {
			return &apply{sh, func(ctx context.Context, b *store.Batch) error { return f(ctx, p, sh, b) }}
		}}
	}
}

// applied is a store that says something else about what it did.
func applied(f func(error) error) func(store.Store) store.Store {
	return applying(func(ctx context.Context, _ int, sh store.Shard, b *store.Batch) error {
		return f(sh.Apply(ctx, b))
	})
}

// batches plants a bug in every batch.
func batches(f func(*store.Batch)) func(*sim.Plan) sim.Mutant {
	return func(*sim.Plan) sim.Mutant {
		return sim.Mutant{Disk: applying(func(ctx context.Context, _ int, sh store.Shard, b *store.Batch) error {
			other := *b
			f(&other)
			return sh.Apply(ctx, &other)
		})}
	}
}

// forgetful says that it has written what a kill soon after takes away.
func forgetful(p *sim.Plan, _ store.Store) func(store.Store) store.Store {
	return applying(func(ctx context.Context, _ int, sh store.Shard, b *store.Batch) error {
		since := time.Since(p.Start)
		for _, f := range p.Faults {
			if f.Kind == sim.Kill && since < f.At && f.At-since < 500*time.Millisecond {
				return nil
			}
		}
		return sh.Apply(ctx, b)
	})
}

// unfenced lets every owner write.
func unfenced(_ *sim.Plan, s store.Store) func(store.Store) store.Store {
	return applying(func(ctx context.Context, p int, _ store.Shard, b *store.Batch) error {
		owners, err := s.Leaser().Owners(ctx)
		if err != nil {
			return err
		}
		for _, o := range owners {
			if o.Partition == p {
				now, err := s.Shard(p, o.Term)
				if err != nil {
					return err
				}
				return now.Apply(ctx, b)
			}
		}
		return store.ErrFenced
	})
}

// halves applies half of every tenth batch that has halves.
func halves(*sim.Plan, store.Store) func(store.Store) store.Store {
	n := make([]int, 64)
	return applying(func(ctx context.Context, p int, sh store.Shard, b *store.Batch) error {
		if n[p]++; n[p]%10 != 0 || len(b.Puts)+len(b.Deletes)+len(b.Runs) < 2 {
			return sh.Apply(ctx, b)
		}
		half := *b
		half.Puts, half.Deletes = b.Puts[:len(b.Puts)/2], b.Deletes[:len(b.Deletes)/2]
		return sh.Apply(ctx, &half)
	})
}

// blind does not find what was due when a term began.
func blind(*sim.Plan, store.Store) func(store.Store) store.Store {
	return func(s store.Store) store.Store {
		return shards{s, func(_ int, _ store.Term, sh store.Shard) store.Shard {
			return &late{sh, time.Now().UnixNano()}
		}}
	}
}

type late struct {
	store.Shard
	since int64
}

// Due is for [store.Shard].
func (l *late) Due(ctx context.Context, q store.DueQuery) ([]store.Record, error) {
	records, err := l.Shard.Due(ctx, q)
	full := len(records) == q.Limit
	for i := 0; i < len(records); i++ {
		if records[i].State.Due < l.since && !full {
			records = append(records[:i], records[i+1:]...)
			i--
		}
	}
	return records, err
}

// seen plants a bug in every record that is read.
func seen(f func(*store.Record)) func(*sim.Plan) sim.Mutant {
	return disk(func(*sim.Plan, store.Store) func(store.Store) store.Store {
		return func(s store.Store) store.Store {
			return shards{s, func(_ int, _ store.Term, sh store.Shard) store.Shard { return &reading{sh, f} }}
		}
	})
}

type reading struct {
	store.Shard
	f func(*store.Record)
}

// Due is for [store.Shard].
func (r *reading) Due(ctx context.Context, q store.DueQuery) ([]store.Record, error) {
	records, err := r.Shard.Due(ctx, q)
	for i := range records {
		r.f(&records[i])
	}
	return records, err
}

// Read is for [store.Shard].
func (r *reading) Read(ctx context.Context, refs []store.Ref) ([]store.Record, error) {
	records, err := r.Shard.Read(ctx, refs)
	for i := range records {
		r.f(&records[i])
	}
	return records, err
}

// frozen gives the same epoch again.
func frozen(s store.Store) store.Store { return icy{s} }

type icy struct{ store.Store }

// Leaser is for [store.Store].
func (s icy) Leaser() store.Leaser { return icyLeaser{s.Store.Leaser()} }

// Shard is for [store.Store]. Whoever has a term may write.
func (s icy) Shard(p int, term store.Term) (store.Shard, error) {
	owners, err := s.Store.Leaser().Owners(context.Background())
	for _, o := range owners {
		if o.Partition == p && !term.IsZero() {
			term = o.Term
		}
	}
	if err != nil {
		return nil, err
	}
	return s.Store.Shard(p, term)
}

type icyLeaser struct{ store.Leaser }

// Claim is for [store.Leaser].
func (l icyLeaser) Claim(ctx context.Context, node string, ps []int,
	ttl time.Duration) ([]store.Term, error) {
	terms, err := l.Leaser.Claim(ctx, node, ps, ttl)
	for i := range terms {
		if !terms[i].IsZero() {
			terms[i].Epoch = 1
		}
	}
	return terms, err
}
