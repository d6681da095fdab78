package engine

import (
	"context"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
	"github.com/carillonhq/carillon/server/internal/audit"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// maxBackfillList is the most backfills in a list.
const maxBackfillList = 1000

// planAgain is how often a backfill is planned again because its job has been put meanwhile.
const planAgain = 5

// backfills implements [carillon.Backfills].
type backfills struct {
	partitions *partitions
	now        func() time.Time
}

// StartBackfill runs a job at past times of its schedule; see [carillon.Backfills]. Once it has returned, the
// backfill goes on whatever becomes of ctx. The times are counted on the caller's goroutine, as there may be
// a million.
func (bs *backfills) StartBackfill(ctx context.Context, key carillon.Key,
	spec carillon.BackfillSpec) (carillon.Backfill, error) {
	if err := checkKey(&key); err != nil {
		return carillon.Backfill{}, err
	}
	if err := spec.Validate(bs.now()); err != nil {
		return carillon.Backfill{}, err
	}
	p, by := bs.partitions.of(key), audit.From(ctx)
	for range planAgain {
		var filter *schedule.Filter
		basis, err := inRound(ctx, p, jobCall(key),
			func(p *partitionRunner, _ int64) (partition.BackfillBasis, error) {
				filter = p.m.BackfillRuns.Filter(key)
				return p.m.BackfillRuns.Basis(key)
			})
		if err != nil {
			return carillon.Backfill{}, err
		}
		plan, err := partition.PlanBackfill(basis, filter, spec)
		if err != nil {
			return carillon.Backfill{}, err
		}
		ok := false
		b, err := inRound(ctx, p, jobCall(key),
			func(p *partitionRunner, now int64) (b carillon.Backfill, err error) {
				if b, ok, err = p.m.BackfillRuns.Start(now, key, spec, plan); ok && err == nil {
					record(p, by, now)
				}
				return b, err
			})
		if ok && err == nil {
			by.Stored()
		}
		if err != nil || ok {
			return b, err
		}
	}
	return carillon.Backfill{}, carillon.Errorf(carillon.Unavailable, "name",
		"job %.64q is being changed all the time; try again", key.Name)
}

// ofBackfill parses a backfill's id and finds its partition.
func (bs *backfills) ofBackfill(id string) (store.RunID, *partitionRunner, error) {
	bid, err := store.ParseRunID(id)
	if err != nil || bid.Cause != carillon.CauseBackfill || bid.Scheduled != 0 || bid.Seq == 0 {
		return bid, nil, carillon.Errorf(carillon.InvalidArgument, "id",
			"this is not the id of a backfill; a backfill has it from when it is started")
	}
	bid = bid.In(len(bs.partitions.parts))
	return bid, bs.partitions.parts[bid.Partition], nil
}

func noBackfill(id string) error {
	return carillon.Errorf(carillon.NotFound, "id", "there is no backfill %s", id)
}

// GetBackfill returns a backfill, running or ended; see [carillon.Backfills].
func (bs *backfills) GetBackfill(ctx context.Context, namespace, id string) (carillon.Backfill, error) {
	bid, p, err := bs.ofBackfill(id)
	if err != nil {
		return carillon.Backfill{}, err
	}
	return inRound(ctx, p, call{}, func(p *partitionRunner, _ int64) (carillon.Backfill, error) {
		return p.backfill(namespaceOf(namespace), bid)
	})
}

// backfill returns a backfill of a namespace, from memory or from the ended ones.
func (p *partitionRunner) backfill(namespace string, id store.RunID) (carillon.Backfill, error) {
	b, ok := p.m.Backfills.Get(id)
	if !ok {
		var err error
		if b, ok, err = p.endedBackfill(id); err != nil {
			return carillon.Backfill{}, err
		}
	}
	if !ok || b.Namespace != namespace {
		return carillon.Backfill{}, noBackfill(id.String())
	}
	return b, nil
}

// endedBackfill reads an ended backfill from the store.
func (p *partitionRunner) endedBackfill(id store.RunID) (b carillon.Backfill, ok bool, err error) {
	key := partition.EndedBackfill(id)
	records, err := look(&p.reads, p.shard.MetaRecords,
		store.MetaQuery{Kind: store.KindBackfill, Prefix: key, Limit: 1})
	if err != nil {
		return b, false, readError(err)
	}
	if len(records) == 0 || records[0].Key != key {
		return b, false, nil
	}
	rec, err := codec.DecodeBackfill(records[0].Value)
	if err != nil {
		return b, false, readError(err)
	}
	return partition.BackfillOf(&rec, p.number), true, nil
}

// ListBackfills returns the backfills of a job, newest first and at most 1,000; see [carillon.Backfills].
func (bs *backfills) ListBackfills(ctx context.Context, key carillon.Key) ([]carillon.Backfill, error) {
	return ofJob(ctx, bs.partitions, key, jobCall,
		func(p *partitionRunner, _ int64, key carillon.Key) ([]carillon.Backfill, error) {
			return p.backfillsOf(key)
		})
}

// backfillsOf returns the backfills of a job: those in memory and the ended ones.
func (p *partitionRunner) backfillsOf(key carillon.Key) ([]carillon.Backfill, error) {
	list := p.m.Backfills.OfJob(key)
	seen := map[string]bool{}
	for i := range list {
		seen[list[i].ID] = true
	}
	q := store.MetaQuery{Kind: store.KindBackfill, Prefix: partition.EndedBackfillsOf(key)}
	ended, err := look(&p.reads, func(ctx context.Context, q store.MetaQuery) ([]store.MetaRecord, error) {
		return AllMetaRecords(ctx, p.shard, q)
	}, q)
	if err != nil {
		return nil, readError(err)
	}
	for _, r := range ended {
		rec, err := codec.DecodeBackfill(r.Value)
		if err != nil {
			p.e.log.Error("a backfill's record cannot be read", "partition", p.number, "error", err)
			continue
		}
		if b := partition.BackfillOf(&rec, p.number); rec.Key == key && !seen[b.ID] {
			list = append(list, b)
		}
	}
	partition.SortBackfills(list)
	return list[:min(len(list), maxBackfillList)], nil
}

// CancelBackfill ends a backfill; see [carillon.Backfills].
func (bs *backfills) CancelBackfill(ctx context.Context, namespace, id string) (carillon.Backfill, error) {
	bid, p, err := bs.ofBackfill(id)
	if err != nil {
		return carillon.Backfill{}, err
	}
	c := changing(ctx, call{})
	return inRound(ctx, p, c, func(p *partitionRunner, now int64) (carillon.Backfill, error) {
		b, err := p.backfill(namespaceOf(namespace), bid)
		if err != nil || b.Status != carillon.BackfillRunning {
			return b, err
		}
		if err := p.records.bring(p.m.Backfills.OpenRuns(bid), nil, now); err != nil {
			return carillon.Backfill{}, readError(err)
		}
		if b, ok := p.m.BackfillRuns.Cancel(now, bid); ok {
			return b, nil
		}
		return carillon.Backfill{}, noBackfill(id)
	})
}

// sweepBackfills looks through one page of the ended backfills for those whose retention has ended; the next
// call takes the next page.
func (p *partitionRunner) sweepBackfills(now int64) {
	q := store.MetaQuery{Kind: store.KindBackfill, Prefix: partition.EndedBackfills, After: p.backfillsSwept,
		Limit: metaRecordsAtOnce}
	page, err := look(&p.reads, p.shard.MetaRecords, q)
	if err != nil {
		p.reads.failed(err)
		return
	}
	p.m.Backfills.Sweep(page, now)
	p.backfillsSwept = ""
	if len(page) == q.Limit {
		p.backfillsSwept = page[len(page)-1].Key
	}
}
