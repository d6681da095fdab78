package payload

import (
	"context"
	"encoding/hex"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// Records is the store of the jobs.
type Records interface {
	Shard(partition int, term store.Term) (store.Shard, error)
	Meta() store.Meta
}

// look calls seen with what each record of the store refers to, as DAY/NAMESPACE/SHA256. What is referred to
// all the time is seen, also if its record is written or moves to another one meanwhile:
//
//   - Intents of batches become jobs, perhaps in other partitions. They are read before all jobs.
//   - A job's content becomes that of its pending runs, which come after it in a list.
//   - Pending runs become dead runs, and dead ones are redriven. Both are read twice, in turn. So a look
//     misses a run only if it is redriven and dies twice while a partition is read, each time between two
//     reads.
func look(ctx context.Context, records Records, seen func(name string)) error {
	shards := make([]store.Shard, records.Meta().Partitions)
	for i := range shards {
		var err error
		if shards[i], err = records.Shard(i, store.Term{}); err != nil {
			return err
		}
		if err := intents(ctx, shards[i], seen); err != nil {
			return err
		}
	}
	for _, shard := range shards {
		for range 2 {
			if err := unfinished(ctx, shard, seen); err != nil {
				return err
			}
			if err := dead(ctx, shard, seen); err != nil {
				return err
			}
		}
	}
	return nil
}

// How much is in memory at a time.
const (
	jobsAtOnce  = 100
	longSpec    = 16 << 10 // bytes of a spec that is read by itself
	wholeAtOnce = 8        // finished runs and intents: they come with their payloads, of 1 MiB and more each
)

// unfinished looks at jobs and pending runs.
func unfinished(ctx context.Context, shard store.Shard, seen func(string)) error {
	q := store.ListQuery{Pending: true, Limit: jobsAtOnce, MaxSpec: longSpec}
	for {
		page, err := shard.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page {
			r := &page[i]
			if r.Spec == nil && (r.Seq == 0 || r.State.OwnSpec) {
				whole, err := shard.Read(ctx, []store.Ref{r.Ref})
				if err != nil {
					return err
				}
				r = &whole[0]
			}
			if err := note(r.Spec, r.Key, seen); err != nil {
				return err
			}
		}
		if len(page) < q.Limit {
			return nil
		}
		q.Past(page[len(page)-1].Ref)
	}
}

// dead looks at finished runs that can be redriven.
func dead(ctx context.Context, shard store.Shard, seen func(string)) error {
	q := store.RunQuery{All: true, Limit: wholeAtOnce}
	for {
		page, err := shard.Runs(ctx, q)
		if err != nil {
			return err
		}
		for i := range page {
			if err := note(page[i].Spec, page[i].Key, seen); err != nil {
				return err
			}
		}
		if len(page) < q.Limit {
			return nil
		}
		q.After = page[len(page)-1].Cursor
	}
}

// intents looks at jobs of batches that are decided and perhaps not stored yet.
func intents(ctx context.Context, shard store.Shard, seen func(string)) error {
	q := store.MetaQuery{Kind: store.KindIntent, Limit: wholeAtOnce}
	for {
		page, err := shard.MetaRecords(ctx, q)
		if err != nil {
			return err
		}
		for i := range page {
			job, err := partition.ReadIntent(page[i])
			if err != nil {
				return err
			}
			if job.Data.Ref != nil {
				seen(nameOf(job.Namespace, job.Data.Ref))
			}
		}
		if len(page) < q.Limit {
			return nil
		}
		q.After = page[len(page)-1].Key
	}
}

// note notes what a spec refers to; nil is none.
func note(spec []byte, key carillon.Key, seen func(string)) error {
	if spec == nil {
		return nil
	}
	job, err := codec.DecodeSpec(spec, key)
	if err == nil && job.Data.Ref != nil {
		seen(nameOf(key.Namespace, job.Data.Ref))
	}
	return err
}

// nameOf is the name of an object without what those of all begin with.
func nameOf(namespace string, r *carillon.PayloadRef) string {
	return r.DayText() + "/" + namespace + "/" + hex.EncodeToString(r.SHA256[:])
}
