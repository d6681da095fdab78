package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// PutJobs stores all jobs or none; see [carillon.Jobs] and docs/decisions/0022.
func (j *jobs) PutJobs(ctx context.Context, jobs []carillon.Job) ([]carillon.PutResult, error) {
	return j.putAll(ctx, jobs, 0)
}

// putAll is PutJobs of a call that was first seen at the time at, in UTC ns; 0 is now.
func (j *jobs) putAll(ctx context.Context, jobs []carillon.Job, at int64) ([]carillon.PutResult, error) {
	if len(jobs) > carillon.MaxBatch {
		return nil, carillon.Errorf(carillon.InvalidArgument, "jobs", "%d jobs are more than %d in one batch",
			len(jobs), carillon.MaxBatch)
	}
	if len(jobs) > 0 {
		if err := j.mayCoordinate(&jobs[0]); err != nil {
			return nil, err
		}
	}
	if err := j.quotas.takeEach(ctx, jobs); err != nil {
		return nil, err
	}
	reqs, err := j.requests(ctx, jobs, at)
	if err != nil || len(reqs) == 0 {
		return nil, err
	}
	warnings, err := j.dependencies.link(ctx, reqs, true)
	if err != nil {
		return nil, err
	}
	puts, err := withRoom(ctx, j.quotas,
		func() ([]carillon.PutResult, error) { return j.batches.put(ctx, reqs) })
	if err != nil {
		return nil, err
	}
	for i := range puts {
		puts[i].Warnings = append(puts[i].Warnings, warnings[i]...)
		j.advise(ctx, &puts[i])
	}
	j.scheduled(len(reqs))
	return puts, nil
}

// mayCoordinate refuses a batch whose first job is in a partition of another node: the owner of that
// partition coordinates it.
func (j *jobs) mayCoordinate(first *carillon.Job) error {
	key := first.Key()
	key.Namespace = namespaceOf(key.Namespace)
	if p := j.partitions.of(key); j.partitions.remote(p) && key.Name != "" {
		return notOwner(p.number)
	}
	return nil
}

// put stores all jobs or none, in the cheapest way that does: one store batch if they are in one
// partition, one group if their partitions share a lane (groupput.go), otherwise with an intent (intents.go).
func (bs *batches) put(ctx context.Context, reqs []message.PutRequest) ([]carillon.PutResult, error) {
	parts := bs.partitions.byPartition(reqs)
	if len(parts) == 1 {
		return bs.putTogether(ctx, reqs)
	}
	if l := parts.lane(); l != nil {
		puts, err := l.putGroup(ctx, reqs, parts, "")
		if _, is := errors.AsType[*message.RoomError](err); is {
			puts, err = bs.putHeld(ctx, l, reqs, parts)
		}
		if !errors.Is(err, errApart) {
			return puts, err
		}
	}
	return bs.putAcross(ctx, reqs)
}

// requests checks the jobs of a batch, as of at or else now, for everything that could be wrong, so that
// storing them cannot fail.
func (j *jobs) requests(ctx context.Context, jobs []carillon.Job, at int64) ([]message.PutRequest, error) {
	reqs := make([]message.PutRequest, len(jobs))
	places := make(map[carillon.Key]int, len(jobs))
	j.cfg.Enter(ctx, -1, "")
	if err := j.room(); err != nil {
		return nil, err
	}
	at = cmp.Or(at, j.cfg.now())
	trace := traceOf(ctx)
	for i := range jobs {
		req, err := j.request(ctx, jobs[i], carillon.PutOptions{})
		if err == nil {
			err = j.plannable(ctx, req.Job, at)
		}
		if err != nil {
			return nil, inBatch(i, err)
		}
		if first, twice := places[req.Job.Key()]; twice {
			return nil, carillon.Errorf(carillon.InvalidArgument, fmt.Sprintf("jobs[%d].name", i),
				"the same name as jobs[%d]: each name may stand in a batch once", first)
		}
		places[req.Job.Key()] = i
		req.At, req.Options, req.Trace = at, carillon.PutOptions{}, trace
		reqs[i] = req
	}
	return reqs, nil
}

// plannable returns an error if a job of a batch could never run. A job that exists and keeps its times may
// be one that never runs again.
func (j *jobs) plannable(ctx context.Context, job *carillon.Job, at int64) error {
	never := partition.Plannable(job, at)
	if never == nil {
		return nil
	}
	p := j.partitions.of(job.Key())
	keeps, err := across(ctx, j.partitions, p, message.KeepsTimes{Job: job})
	switch {
	case err != nil:
		return certain(err)
	case !keeps:
		return never
	}
	return nil
}

// inBatch adds to an error which job of the batch it is about.
func inBatch(i int, err error) error {
	e, ok := errors.AsType[*carillon.Error](err)
	if !ok {
		return fmt.Errorf("jobs[%d]: %w", i, err)
	}
	return carillon.WithField(err, fmt.Sprintf("jobs[%d].%s", i, e.Field))
}

// byPart maps each partition to its requests of a batch, by index.
type byPart map[*partitionRunner][]int

// inOrder returns partitions ordered by number. Requests to several partitions go out in this order rather
// than in that of a map, because a run of the simulation has to be repeatable.
func inOrder[V any](parts map[*partitionRunner]V) []*partitionRunner {
	return slices.SortedFunc(maps.Keys(parts),
		func(a, b *partitionRunner) int { return cmp.Compare(a.number, b.number) })
}

func (ps *partitions) byPartition(reqs []message.PutRequest) byPart {
	parts := byPart{}
	for i := range reqs {
		p := ps.of(reqs[i].Job.Key())
		parts[p] = append(parts[p], i)
	}
	return parts
}

// putTogether stores jobs of one partition in one store batch.
func (bs *batches) putTogether(ctx context.Context, reqs []message.PutRequest) ([]carillon.PutResult, error) {
	c := changing(ctx, call{pending: true})
	for i := range reqs {
		c.refs = append(c.refs, store.Ref{Key: reqs[i].Job.Key()})
	}
	return inRound(ctx, bs.partitions.of(reqs[0].Job.Key()), c,
		func(p *partitionRunner, now int64) ([]carillon.PutResult, error) {
			puts, bad, err := p.m.Jobs.PutAll(now, reqs)
			if err != nil {
				return nil, inBatch(bad, err)
			}
			return puts, nil
		})
}
