package doctor

import (
	"context"
	"errors"
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

const (
	// pageItems are read at once.
	pageItems = 256
	// longSpec: longer specs are read one by one, so that a page is not too large.
	longSpec = 16 << 10
)

// family is a job with what is counted of its pending runs, which are read right after it.
type family struct {
	key     carillon.Key
	job     *store.Record // nil: it is not there
	pending uint32
	tried   uint64 // unfinished runs that have had an attempt
}

// records examines the jobs, each with its pending runs behind it.
func (p *exam) records(ctx context.Context) error {
	q := store.ListQuery{Limit: pageItems, MaxSpec: longSpec, Pending: true}
	var f family
	for {
		page, err := p.shard.List(ctx, q)
		if errors.Is(err, store.ErrDamaged) {
			return p.recordsAround(ctx, q, err)
		}
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return p.endFamily(ctx, &f)
		}
		q.Past(page[len(page)-1].Ref)
		for i := range page {
			if err := p.member(ctx, &f, &page[i]); err != nil {
				return err
			}
		}
		if p.tell != nil {
			p.tell(p.report)
		}
	}
}

// member examines a record of a family, which ends where the next one begins.
func (p *exam) member(ctx context.Context, f *family, r *store.Record) error {
	if r.Key != f.key {
		if err := p.endFamily(ctx, f); err != nil {
			return err
		}
		*f = family{key: r.Key}
	}
	if r.State.Run.Live && r.State.Run.Attempt > 0 {
		f.tried++
	}
	err := p.record(ctx, r)
	if r.Seq == 0 {
		p.report.Jobs++
		job := *r // as it was mended
		f.job = &job
		return err
	}
	p.report.PendingRuns++
	f.pending++
	if f.job == nil {
		p.findf(PendingWithoutJob, r.Ref, "there is no job of the name")
	}
	return err
}

// endFamily compares what a job counts with what there is, where all that there is can be read.
func (p *exam) endFamily(ctx context.Context, f *family) error {
	if f.job == nil || p.left > 0 {
		return nil
	}
	s := f.job.State // of which the parts that are wrong are written again
	put := func(kind Kind, what string) error {
		b := &store.Batch{Puts: []store.Record{{Ref: f.job.Ref, Exists: true, State: s}}}
		return p.mend(ctx, p.number, findingOf(kind, p.number, f.job.Ref, what), b)
	}
	if s.Pending != f.pending {
		what := said("it counts %d pending runs, and has %d", s.Pending, f.pending)
		s.Pending = f.pending
		if err := put(PendingCountWrong, what); err != nil {
			return err
		}
	}
	// What began is what ended and what goes on (docs/decisions/0038). Jobs of format 1 have not counted all
	// that ended, so the other way round nothing is known.
	c := &s.Counters
	if began := c.Succeeded + c.Dropped + c.Dead + c.Cancelled + f.tried; began > c.Fired {
		what := said("it counts %d runs that began, and %d that ended or go on", c.Fired, began)
		c.Fired = began
		if err := put(CountersWrong, what); err != nil {
			return err
		}
	}
	n, err := p.backfillsOf(ctx, f.key, s.Backfills > 0)
	if errors.Is(err, store.ErrDamaged) {
		return nil // that is told of where the metadata records are read, and what lacks is not known
	}
	if err != nil || n == s.Backfills {
		return err
	}
	what := said("it counts %d unfinished backfills, and has %d", s.Backfills, n)
	s.Backfills = n
	return put(BackfillCountWrong, what)
}

// backfillsOf counts the unfinished backfills of a job, if it has any by its own account. Those of jobs that
// count none are found among the metadata records.
func (p *exam) backfillsOf(ctx context.Context, key carillon.Key, some bool) (n uint32, err error) {
	if !some {
		return 0, nil
	}
	prefix := partition.UnfinishedBackfillsOf(key)
	q := store.MetaQuery{Kind: store.KindBackfill, Prefix: prefix, Limit: pageItems}
	for {
		page, err := p.shard.MetaRecords(ctx, q)
		if err != nil {
			return 0, err
		}
		for i := range page {
			rec, err := codec.DecodeBackfill(page[i].Value)
			if err != nil {
				return 0, err
			}
			if rec.Key == key {
				n++
			}
		}
		if len(page) < q.Limit {
			return n, nil
		}
		q.After = page[len(page)-1].Key
	}
}

// recordsAround examines the jobs of a partition in which something cannot be read, around what the engine
// names. Pending runs are left out, and so is what is counted of them.
func (p *exam) recordsAround(ctx context.Context, q store.ListQuery, why error) error {
	slices.SortFunc(p.unreadable, store.Ref.Compare)
	q.Pending, q.Limit = false, 1
	last, begun := q.Place()
	for {
		page, err := p.shard.List(ctx, q)
		switch {
		case errors.Is(err, store.ErrDamaged):
			i := slices.IndexFunc(p.unreadable, func(r store.Ref) bool {
				return r.Seq == 0 && (!begun || r.Compare(last) > 0)
			})
			if i < 0 {
				return p.unlessDamaged(store.FaultRecordUnreadable, len(p.unreadable) > 0, why)
			}
			last = p.unreadable[i]
		case err != nil || len(page) == 0:
			return err
		default:
			last = page[0].Ref
			p.report.Jobs++
			if err := p.record(ctx, &page[0]); err != nil {
				return err
			}
		}
		begun = true
		q.Past(last)
	}
}
