package engine

import (
	"context"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// While the store takes no writes its partitions have no term and no machine, so they refuse calls. Reads are
// then answered from the store itself, which holds everything that was ever acknowledged.

// refused reports whether a read with this error should be answered from the store.
func refused(err error) bool {
	kind := carillon.KindOf(err)
	// Of the partition, perhaps not of the record.
	return kind == carillon.Unavailable || kind == carillon.DataLoss
}

// storedJob returns a job as the store has it.
func (ps *partitions) storedJob(ctx context.Context, key carillon.Key) (carillon.Job, error) {
	p := ps.of(key)
	r, err := ps.stored(ctx, p, store.Ref{Key: key})
	if err != nil {
		return carillon.Job{}, err
	}
	if !r.Exists {
		return carillon.Job{}, carillon.Errorf(carillon.NotFound, "name",
			"there is no job %.64q in namespace %q", key.Name, key.Namespace)
	}
	return jobOf(&r, p.number, ps.calendars)
}

// storedJobs returns the records of jobs. After an error those are missing that could not be read.
func (ps *partitions) storedJobs(ctx context.Context, namespace string,
	names []string) (records []store.Record, err error) {
	byPart := map[*partitionRunner][]store.Ref{}
	for _, name := range names {
		ref := store.Ref{Key: carillon.Key{Namespace: namespace, Name: name}}
		p := ps.of(ref.Key)
		byPart[p] = append(byPart[p], ref)
	}
	for _, p := range inOrder(byPart) {
		some, failed := ps.reader(p).Read(ctx, byPart[p])
		if failed != nil {
			err = readError(failed)
		}
		records = append(records, some...)
	}
	return records, err
}

// jobOf returns the job of a record of a partition.
func jobOf(r *store.Record, number int, calendars calendarFinder) (carillon.Job, error) {
	j, err := codec.DecodeSpec(r.Spec, r.Key)
	if err != nil {
		return carillon.Job{}, readError(err)
	}
	partition.StatusOf(&j, &r.State, number)
	partition.ShowNext(&j, &r.State, calendars)
	return j, nil
}

// storedRun returns a run as the store has it, finished or not.
func (ps *partitions) storedRun(ctx context.Context, p *partitionRunner,
	id store.RunID) (carillon.Run, error) {
	shard := ps.reader(p)
	ref, live, err := shard.Live(ctx, id)
	if err != nil {
		return carillon.Run{}, readError(err)
	}
	if live {
		r, err := ps.stored(ctx, p, ref)
		if err != nil {
			return carillon.Run{}, err
		}
		j := carillon.Job{Namespace: ref.Namespace, Name: ref.Name}
		if partition.StatusOf(&j, &r.State, p.number); r.Exists && j.Status.Current != nil {
			return *j.Status.Current, nil
		}
	}
	records, err := shard.Runs(ctx, store.RunQuery{ID: &id, Limit: 1})
	if err != nil {
		return carillon.Run{}, readError(err)
	}
	if len(records) == 0 {
		return carillon.Run{}, noRun(id.String())
	}
	return partition.RunOf(&records[0]), nil
}

// stored reads one record.
func (ps *partitions) stored(ctx context.Context, p *partitionRunner, ref store.Ref) (store.Record, error) {
	records, err := ps.reader(p).Read(ctx, []store.Ref{ref})
	if err != nil {
		return store.Record{}, readError(err)
	}
	return records[0], nil
}
