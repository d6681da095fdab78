package engine

import (
	"context"
	"sync"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// EachJob calls f with every job of the namespace, or of all namespaces if it is empty, whose name begins
// with the prefix: one call at a time, in no order, until one fails. It reads as ListJobs does, from the
// store alone, and holds a page of each of a few partitions, however many jobs there are. A job that is put
// or deleted meanwhile may be missed.
func (j *jobs) EachJob(ctx context.Context, namespace, prefix string, f func(*carillon.Job) error) error {
	var one sync.Mutex
	ps := j.partitions
	return sideBySide(len(ps.parts), func(i int) error {
		q := store.ListQuery{Namespace: namespace, Prefix: prefix, Limit: carillon.MaxBatch,
			MaxSpec: partition.InlineSpec}
		for {
			records, err := ps.shards[i].List(ctx, q)
			if err != nil {
				return readError(err)
			}
			if err := ps.eachOf(ctx, i, records, &one, f); err != nil || len(records) < q.Limit {
				return err
			}
			last := records[len(records)-1].Key
			if q.After = last.Name; namespace == "" {
				q.After = last.Namespace + "\x00" + last.Name
			}
		}
	})
}

// eachOf calls f with the jobs of a page of a partition, while no other partition does.
func (ps *partitions) eachOf(ctx context.Context, number int, records []store.Record, one *sync.Mutex,
	f func(*carillon.Job) error) error {
	for i := range records {
		r := &records[i]
		if r.Spec == nil { // too long for a list
			whole, err := ps.shards[number].Read(ctx, []store.Ref{r.Ref})
			if err != nil {
				return readError(err)
			}
			if r = &whole[0]; !r.Exists {
				continue // deleted meanwhile
			}
		}
		job, err := jobOf(r, number, ps.calendars)
		if err != nil {
			return err
		}
		one.Lock()
		err = f(&job)
		one.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}
