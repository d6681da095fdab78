package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/oklog/ulid/v2"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store"
)

// PutJob stores a job; see [carillon.Jobs]. A job without a name gets a ULID.
func (e *Engine) PutJob(ctx context.Context, job carillon.Job, opts ...carillon.PutOption) (carillon.Put, error) {
	req, err := e.request(job, carillon.ResolvePut(opts))
	if err != nil {
		return carillon.Put{}, err
	}
	put, err := ask(ctx, e.partitionOf(req.Job.Key()), jobCall(req.Job.Key()), func(p *owned, now int64) (carillon.Put, error) {
		return p.m.Put(now, req)
	})
	if err == nil {
		e.scheduled(1)
	}
	return put, err
}

// request checks a job and makes a put of it.
func (e *Engine) request(job carillon.Job, o carillon.PutOptions) (partition.PutRequest, error) {
	if job.Namespace == "" {
		job.Namespace = carillon.DefaultNamespace
	}
	if job.Name == "" {
		job.Name = ulid.MustNew(ulid.Timestamp(e.cfg.Now()), rand.Reader).String()
		o.IfAbsent = true
	}
	job.Status = nil
	req := partition.PutRequest{Job: job, Options: o}
	if err := job.Validate(e.cfg.Limits); err != nil {
		return req, err
	}
	if err := e.settings.strict(&job); err != nil {
		return req, err
	}
	if _, err := rand.Read(req.Random[:]); err != nil {
		return req, fmt.Errorf("random bytes for a uid: %w", err)
	}
	return req, nil
}

func (e *Engine) scheduled(n int) {
	if f := e.cfg.Events.Scheduled; f != nil {
		f(n)
	}
}

// PutJobs checks all jobs, then stores them, each partition's in one batch; see [carillon.Jobs].
func (e *Engine) PutJobs(ctx context.Context, jobs []carillon.Job) ([]carillon.Put, error) {
	if len(jobs) > carillon.MaxBatch {
		return nil, carillon.Errorf(carillon.InvalidArgument, "jobs", "%d jobs are more than %d in one batch", len(jobs), carillon.MaxBatch)
	}
	byPart := map[*owned][]int{}
	reqs := make([]partition.PutRequest, len(jobs))
	seen := make(map[carillon.Key]int, len(jobs))
	for i := range jobs {
		req, err := e.request(jobs[i], carillon.PutOptions{})
		if err != nil {
			return nil, inBatch(i, err)
		}
		if first, twice := seen[req.Job.Key()]; twice {
			return nil, carillon.Errorf(carillon.InvalidArgument, fmt.Sprintf("jobs[%d].name", i),
				"the same name as jobs[%d]: each name may stand in a batch once", first)
		}
		seen[req.Job.Key()] = i
		reqs[i] = req
		p := e.partitionOf(req.Job.Key())
		byPart[p] = append(byPart[p], i)
	}
	return e.putAll(ctx, reqs, byPart)
}

// inBatch names the job of a batch that an error is about.
func inBatch(i int, err error) error {
	e, ok := errors.AsType[*carillon.Error](err)
	if !ok {
		return fmt.Errorf("jobs[%d]: %w", i, err)
	}
	named := *e
	named.Field = fmt.Sprintf("jobs[%d].%s", i, e.Field)
	return &named
}

func (e *Engine) putAll(ctx context.Context, reqs []partition.PutRequest, byPart map[*owned][]int) ([]carillon.Put, error) {
	puts := make([]carillon.Put, len(reqs))
	errs := make(chan error, len(byPart))
	for p, indices := range byPart {
		c := call{}
		for _, i := range indices {
			c.refs = append(c.refs, store.Ref{Key: reqs[i].Job.Key()})
		}
		go func() {
			_, err := ask(ctx, p, c, func(p *owned, now int64) (struct{}, error) {
				for _, i := range indices {
					var err error
					if puts[i], err = p.m.Put(now, reqs[i]); err != nil {
						return struct{}{}, inBatch(i, err)
					}
				}
				return struct{}{}, nil
			})
			errs <- err
		}()
	}
	var first error
	for range byPart {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	if first != nil {
		return nil, partly(first, len(byPart) > 1)
	}
	e.scheduled(len(reqs))
	return puts, nil
}

// partly marks the error of a batch of which other parts may have been stored.
func partly(err error, others bool) error {
	if e, ok := errors.AsType[*carillon.Error](err); ok && others && !e.Unknown {
		marked := *e
		marked.Unknown = true
		return &marked
	}
	return err
}

// PatchJob changes fields of a job; see [carillon.Jobs].
func (e *Engine) PatchJob(ctx context.Context, key carillon.Key, patch carillon.Patch) (carillon.Put, error) {
	if err := carillon.ValidateKey(key); err != nil {
		return carillon.Put{}, err
	}
	return ask(ctx, e.partitionOf(key), jobCall(key), func(p *owned, now int64) (carillon.Put, error) {
		return p.m.Patch(now, key, patch)
	})
}

// SetPaused pauses or resumes a job; see [carillon.Jobs].
func (e *Engine) SetPaused(ctx context.Context, key carillon.Key, pause carillon.Pause) (carillon.Job, error) {
	if err := carillon.ValidateKey(key); err != nil {
		return carillon.Job{}, err
	}
	return ask(ctx, e.partitionOf(key), jobCall(key), func(p *owned, now int64) (carillon.Job, error) {
		return p.m.SetPaused(now, key, pause)
	})
}

// GetJob is a job as it stands; see [carillon.Jobs].
func (e *Engine) GetJob(ctx context.Context, key carillon.Key) (carillon.Job, error) {
	if err := carillon.ValidateKey(key); err != nil {
		return carillon.Job{}, err
	}
	job, err := ask(ctx, e.partitionOf(key), jobCall(key), func(p *owned, _ int64) (carillon.Job, error) {
		return p.m.Job(key)
	})
	if refused(err) {
		return e.storedJob(ctx, key)
	}
	return job, err
}

// DeleteJob removes a job; see [carillon.Jobs].
func (e *Engine) DeleteJob(ctx context.Context, key carillon.Key) (carillon.Deleted, error) {
	if err := carillon.ValidateKey(key); err != nil {
		return carillon.Deleted{}, err
	}
	return ask(ctx, e.partitionOf(key), jobCall(key), func(p *owned, now int64) (carillon.Deleted, error) {
		return p.m.Delete(now, key)
	})
}

// DeleteJobs removes jobs by prefix; see [carillon.Jobs].
func (e *Engine) DeleteJobs(ctx context.Context, namespace, prefix string) (int, error) {
	if err := carillon.ValidatePrefix(namespace, prefix); err != nil {
		return 0, err
	}
	done := make(chan outcome[int], len(e.parts))
	for _, p := range e.parts {
		go func() {
			n, err := e.deleteIn(ctx, p, namespace, prefix)
			done <- outcome[int]{n, err}
		}()
	}
	total := 0
	var first error
	for range e.parts {
		o := <-done
		total += o.value
		if first == nil {
			first = o.err
		}
	}
	return total, first
}

// deleteIn removes a partition's jobs by prefix, page by page.
func (e *Engine) deleteIn(ctx context.Context, p *owned, namespace, prefix string) (int, error) {
	total, after := 0, ""
	for {
		keys, err := e.names(ctx, p, store.ListQuery{Namespace: namespace, Prefix: prefix, After: after, Limit: carillon.MaxBatch, MaxSpec: 1})
		if err != nil || len(keys) == 0 {
			return total, err
		}
		c := call{}
		for _, k := range keys {
			c.refs = append(c.refs, store.Ref{Key: k})
		}
		n, err := ask(ctx, p, c, func(p *owned, now int64) (int, error) {
			n := 0
			for _, k := range keys {
				if _, err := p.m.Delete(now, k); err == nil { // gone meanwhile: not counted
					n++
				}
			}
			return n, nil
		})
		total += n
		if err != nil {
			return total, err
		}
		after = keys[len(keys)-1].Name
	}
}

func (e *Engine) names(ctx context.Context, p *owned, q store.ListQuery) ([]carillon.Key, error) {
	shard, err := e.reader(p)
	if err != nil {
		return nil, err
	}
	records, err := shard.List(ctx, q)
	if err != nil {
		return nil, readError(err)
	}
	keys := make([]carillon.Key, len(records))
	for i := range records {
		keys[i] = records[i].Key
	}
	return keys, nil
}

// reader is the partition in the store for reading.
func (e *Engine) reader(p *owned) (store.Shard, error) {
	shard, err := e.store.Shard(p.number, store.Term{})
	if err != nil {
		return nil, readError(err)
	}
	return shard, nil
}

func readError(err error) error {
	return carillon.Errorf(carillon.Unavailable, "", "the store could not be read: %w", err)
}
