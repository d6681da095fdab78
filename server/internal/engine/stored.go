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

// storedJob returns a job as the store has it, and why its partition cannot run it.
func (ps *partitions) storedJob(ctx context.Context, key carillon.Key, refusal error) (carillon.Job, error) {
	p := ps.of(key)
	r, err := ps.stored(ctx, p, store.Ref{Key: key})
	if err != nil {
		return carillon.Job{}, err
	}
	if !r.Exists {
		return carillon.Job{}, noJob(key)
	}
	job, err := jobOf(&r, p.number, ps.calendars)
	if err == nil {
		job.Status.Hold = unserved(p.number, partition.StoredHold(&job, &r.State, ps.now()), refusal)
	}
	return job, err
}

// storedUpcoming returns what finds the next times of a job as the store has it.
func (ps *partitions) storedUpcoming(ctx context.Context, key carillon.Key) (partition.Upcoming, error) {
	r, err := ps.stored(ctx, ps.of(key), store.Ref{Key: key})
	if err != nil {
		return partition.Upcoming{}, err
	}
	if !r.Exists {
		return partition.Upcoming{}, noJob(key)
	}
	j, err := codec.DecodeSpec(r.Spec, r.Key)
	if err != nil {
		return partition.Upcoming{}, readError(err)
	}
	return partition.StoredUpcoming(&j, &r.State, ps.now(), ps.calendars), nil
}

func noJob(key carillon.Key) error {
	return carillon.Errorf(carillon.NotFound, "name", "there is no job %.64q in namespace %q", key.Name, key.Namespace)
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

// storedRun returns a run as the store has it, finished or not, and why its partition cannot run it.
func (ps *partitions) storedRun(ctx context.Context, p *partitionRunner, id store.RunID,
	refusal error) (carillon.Run, error) {
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
			run := *j.Status.Current
			run.Hold = unserved(p.number, partition.StoredHold(&j, &r.State, ps.now()), refusal)
			return run, nil
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

// pendingRuns returns the oldest pending runs of a job: those that the store has, as memory has them if the
// partition is here.
func (ps *partitions) pendingRuns(ctx context.Context, key carillon.Key) ([]carillon.Run, error) {
	p := ps.of(key)
	records, err := ps.reader(p).List(ctx,
		store.ListQuery{PendingOf: &key, Limit: carillon.MaxShownPending, MaxSpec: 1})
	if err != nil {
		return nil, readError(err)
	}
	show := func(of func(store.Ref) (r carillon.Run, ok, known bool)) (shown []carillon.Run) {
		for i := range records {
			run, ok, known := of(records[i].Ref)
			if !known {
				run, ok = partition.UnfinishedRun(key, &records[i].State, p.number)
			}
			if ok {
				shown = append(shown, run)
			}
		}
		return shown
	}
	runs, err := inRound(ctx, p, call{}, func(p *partitionRunner, _ int64) ([]carillon.Run, error) {
		return show(p.m.Records.PendingRun), nil
	})
	if refused(err) {
		return show(func(store.Ref) (r carillon.Run, ok, known bool) { return r, false, false }), nil
	}
	return runs, err
}

// stored reads one record.
func (ps *partitions) stored(ctx context.Context, p *partitionRunner, ref store.Ref) (store.Record, error) {
	records, err := ps.reader(p).Read(ctx, []store.Ref{ref})
	if err != nil {
		return store.Record{}, readError(err)
	}
	return records[0], nil
}
