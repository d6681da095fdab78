package engine

import (
	"context"
	"math"
	"strings"
	"sync"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

const (
	// purgeMost is about how many runs of a partition one call cancels.
	purgeMost = 2000
	// purgeAtOnce is how many records a round of a purge looks at, so that the lane's other partitions do not
	// wait long.
	purgeAtOnce = 256
)

// PurgeQueue cancels the due runs that wait in a queue; see [carillon.Queues].
func (qs *queues) PurgeQueue(ctx context.Context, key carillon.QueueKey,
	o carillon.PurgeOptions) (sum carillon.PurgeResult, err error) {
	q, err := queueOf(key)
	if err != nil {
		return sum, err
	}
	parts := make([]outcome[carillon.PurgeResult], len(qs.partitions.parts))
	var all sync.WaitGroup
	for i, p := range qs.partitions.parts {
		all.Go(func() {
			parts[i].value, parts[i].err = across(ctx, qs.partitions, p,
				message.PurgeQueue{Queue: q, DryRun: o.DryRun})
		})
	}
	all.Wait()
	var worst error
	for _, part := range parts {
		sum.Runs, sum.More = sum.Runs+part.value.Runs, sum.More || part.value.More
		if part.err != nil && (worst == nil || unknown(part.err)) {
			worst = part.err
		}
	}
	if o.DryRun {
		return sum, worst
	}
	return sum, partly(worst, sum.Runs > 0)
}

// purging is the purge of a queue in one partition. It goes through what the store has as due, and then
// through what it has as staged in the queue: a due run that is parked meanwhile is found there. Each page is
// judged in a round, by what is in memory.
type purging struct {
	p      *partitionRunner
	reader store.Shard
	m      message.PurgeQueue
	due    int64 // only runs that were due by then: what comes later is not waited for. UTC ns
	done   carillon.PurgeResult
}

func purge(ctx context.Context, p *partitionRunner, m message.PurgeQueue) (any, error) {
	pu := &purging{p: p, reader: p.e.reader(p), m: m, due: p.e.now()}
	err := pu.run(ctx)
	if pu.done.Runs > 0 && elsewhere(err) { // the next call goes to the new owner
		pu.done.More, err = true, nil
	}
	return pu.done, partly(err, pu.done.Runs > 0)
}

func (pu *purging) run(ctx context.Context) error {
	for rank := range uint8(priorities) {
		if err := pu.dueOf(ctx, rank); err != nil || pu.done.More {
			return err
		}
	}
	names, err := pu.parkedNames(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := pu.stagedIn(ctx, name); err != nil || pu.done.More {
			return err
		}
	}
	return nil
}

// priorities is how many priorities there are.
const priorities = 4

// dueOf purges runs of one priority that the store has as due. They include those that wait in memory, as far
// as these are not staged there.
func (pu *purging) dueOf(ctx context.Context, rank uint8) error {
	q := store.DueQuery{Priority: rank, Until: pu.due, Limit: purgeAtOnce, MaxSpec: purgeSpec}
	for {
		records, err := pu.reader.Due(ctx, q)
		if err != nil {
			return readError(err)
		}
		if err := pu.page(ctx, records); err != nil || pu.done.More || len(records) < q.Limit {
			return err
		}
		last := &records[len(records)-1]
		q.After = store.Cursor{Due: last.State.Due, Ref: last.Ref}
	}
}

// parkedNames returns the names under which runs of the queue may be staged: its own, and those of its lines
// for permits.
func (pu *purging) parkedNames(ctx context.Context) (names []string, err error) {
	plain := pu.m.Queue.String()
	records, err := AllMetaRecords(ctx, pu.reader, store.MetaQuery{Kind: store.KindParked, Prefix: plain})
	if err != nil {
		return nil, readError(err)
	}
	for _, r := range records {
		if r.Key == plain || strings.HasPrefix(r.Key, plain+"\x00") {
			names = append(names, r.Key)
		}
	}
	return names, nil
}

// stagedIn purges runs that are staged under a name.
func (pu *purging) stagedIn(ctx context.Context, name string) error {
	q := store.StagedQuery{Queue: name, Limit: purgeAtOnce, MaxSpec: purgeSpec}
	for {
		records, err := pu.reader.Staged(ctx, q)
		if err != nil {
			return readError(err)
		}
		if err := pu.page(ctx, records); err != nil || pu.done.More || len(records) < q.Limit {
			return err
		}
		last := &records[len(records)-1]
		q.After = store.Cursor{Priority: last.State.Priority, Due: last.State.Run.Due, Ref: last.Ref}
		if last.State.Run.Due > pu.due { // so are all that follow in its priority
			q.After.Due = math.MaxInt64
		}
	}
}

// purgeSpec is up to which length specs are read to see which queue a record is of. Those of others are read
// in a round.
const purgeSpec = 1 << 10

// page purges what belongs to the queue of a page of records.
func (pu *purging) page(ctx context.Context, records []store.Record) error {
	var refs []store.Ref
	var c call
	for i := range records {
		if r := &records[i]; pu.mayBeOf(r) {
			refs, c.refs = append(refs, r.Ref), append(c.refs, r.Ref, r.Ref.Job())
		}
	}
	if len(refs) == 0 {
		return nil
	}
	n, err := inRound(ctx, pu.p, c, func(p *partitionRunner, now int64) (n int, err error) {
		p.m.Tick(now) // what was due in the store alone has come into memory just now
		for _, ref := range refs {
			if p.m.Jobs.Purge(now, ref, pu.m.Queue, pu.due, pu.m.DryRun) {
				n++
			}
		}
		return n, nil
	})
	pu.done.Runs += n
	pu.done.More = !pu.m.DryRun && pu.done.Runs >= purgeMost
	return err
}

// mayBeOf reports whether the run of a record may belong to the queue, by what was read of it.
func (pu *purging) mayBeOf(r *store.Record) bool {
	if r.State.Run.Live && r.State.Run.Due > pu.due {
		return false
	}
	if r.Spec == nil {
		return true
	}
	job, err := codec.DecodeSpec(r.Spec, r.Key)
	return err == nil && delivery.QueueOf(r.Namespace, job.Target) == pu.m.Queue
}
