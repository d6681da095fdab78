package contents

import (
	"context"

	"github.com/carillonhq/carillon/server/store"
)

// Reader answers the reads of a [store.Shard] from memory.
type Reader struct {
	// Current returns what the partition holds, with every batch that was acknowledged before the call.
	Current func(ctx context.Context) (*Partition, error)
}

// ask answers from what the partition holds.
func ask[T any](ctx context.Context, r Reader, f func(p *Partition) (T, error)) (answer T, err error) {
	p, err := r.Current(ctx)
	if err != nil {
		return answer, err
	}
	return f(p)
}

// Read returns the records of the refs, in their order.
func (r Reader) Read(ctx context.Context, refs []store.Ref) ([]store.Record, error) {
	return ask(ctx, r, func(p *Partition) ([]store.Record, error) { return p.Read(refs), nil })
}

// List returns jobs in name order.
func (r Reader) List(ctx context.Context, q store.ListQuery) ([]store.Record, error) {
	return ask(ctx, r, func(p *Partition) ([]store.Record, error) { return p.List(q), nil })
}

// Due returns records of one priority in (due, ref) order.
func (r Reader) Due(ctx context.Context, q store.DueQuery) ([]store.Record, error) {
	return ask(ctx, r, func(p *Partition) ([]store.Record, error) { return p.Due(q), nil })
}

// Staged returns the records staged under a queue in (priority, run due, ref) order.
func (r Reader) Staged(ctx context.Context, q store.StagedQuery) ([]store.Record, error) {
	return ask(ctx, r, func(p *Partition) ([]store.Record, error) { return p.Staged(q), nil })
}

// Live finds the record whose unfinished run has the id.
func (r Reader) Live(ctx context.Context, id store.RunID) (ref store.Ref, ok bool, err error) {
	ref, err = ask(ctx, r, func(p *Partition) (found store.Ref, err error) {
		found, ok = p.Live(id)
		return found, nil
	})
	return ref, ok, err
}

// Runs returns finished runs.
func (r Reader) Runs(ctx context.Context, q store.RunQuery) ([]store.RunRecord, error) {
	return ask(ctx, r, func(p *Partition) ([]store.RunRecord, error) { return p.Runs(q) })
}

// MetaRecords returns the metadata records of a kind in key order.
func (r Reader) MetaRecords(ctx context.Context, q store.MetaQuery) ([]store.MetaRecord, error) {
	return ask(ctx, r, func(p *Partition) ([]store.MetaRecord, error) { return p.MetaRecords(q), nil })
}
