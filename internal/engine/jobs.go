package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/oklog/ulid/v2"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store"
)

// PutJob stores a job; see [carillon.Jobs]. A job without a name gets a ULID.
func (e *Engine) PutJob(ctx context.Context, job carillon.Job, opts ...carillon.PutOption) (carillon.PutResult, error) {
	return e.put(ctx, job, carillon.PutOptions{}.With(opts...), 0)
}

// put stores a job for a call that was first seen at the time at, in UTC ns; 0 is now.
func (e *Engine) put(ctx context.Context, job carillon.Job, o carillon.PutOptions, at int64) (carillon.PutResult, error) {
	e.enter(ctx, -1, "")
	req, err := e.request(job, o)
	if err != nil {
		return carillon.PutResult{}, err
	}
	warnings, err := e.linkOne(ctx, &req)
	if err != nil {
		return carillon.PutResult{}, err
	}
	key := req.Job.Key()
	req.At = at
	put, err := ask(ctx, e.partitionOf(key), editCall(key), func(p *partitionRunner, now int64) (carillon.PutResult, error) {
		return p.m.Put(now, req)
	})
	if err != nil {
		return put, err
	}
	e.scheduled(1)
	put.Warnings = append(put.Warnings, warnings...)
	e.advise(ctx, &put)
	return put, nil
}

// linkOne is link for a single put. Most jobs depend on no other.
func (e *Engine) linkOne(ctx context.Context, req *partition.PutRequest) ([]string, error) {
	if len(req.Job.DependsOn) == 0 {
		return nil, nil
	}
	reqs := []partition.PutRequest{*req}
	warnings, err := e.link(ctx, reqs, false)
	if err != nil {
		return nil, err
	}
	*req = reqs[0]
	return warnings[0], nil
}

// request checks a job and makes a put request of it.
func (e *Engine) request(job carillon.Job, o carillon.PutOptions) (partition.PutRequest, error) {
	job.Namespace = namespaceOf(job.Namespace)
	if job.Name == "" {
		id, err := ulid.New(ulid.Timestamp(e.cfg.Now()), e.cfg.Random)
		if err != nil {
			return partition.PutRequest{}, fmt.Errorf("random bytes for a name: %w", err)
		}
		job.Name, o.IfAbsent = id.String(), true
	}
	job.Status = nil
	req := partition.PutRequest{Job: &job, Options: o}
	if err := job.Validate(e.cfg.Limits); err != nil {
		return req, err
	}
	if err := e.settings.strict(&job); err != nil {
		return req, err
	}
	if _, err := io.ReadFull(e.cfg.Random, req.Random[:]); err != nil {
		return req, fmt.Errorf("random bytes for a uid: %w", err)
	}
	// Here, where callers run concurrently, rather than on the lane's goroutine.
	req.Spec = partition.EncodeSpec(&job)
	return req, nil
}

func (e *Engine) scheduled(n int) {
	if f := e.cfg.Events.Scheduled; f != nil {
		f(n)
	}
}

// PatchJob changes fields of a job; see [carillon.Jobs].
func (e *Engine) PatchJob(ctx context.Context, key carillon.Key, patch carillon.Patch) (carillon.PutResult, error) {
	return e.patch(ctx, key, patch, 0)
}

// patch changes a job for a call that was first seen at the time at, in UTC ns; 0 is now.
func (e *Engine) patch(ctx context.Context, key carillon.Key, patch carillon.Patch, at int64) (carillon.PutResult, error) {
	if err := checkKey(&key); err != nil {
		return carillon.PutResult{}, err
	}
	waits, warnings, err := e.linkPatch(ctx, key, &patch)
	if err != nil {
		return carillon.PutResult{}, err
	}
	put, err := ask(ctx, e.partitionOf(key), editCall(key), func(p *partitionRunner, now int64) (carillon.PutResult, error) {
		return p.m.Patch(now, at, key, patch, waits...)
	})
	if err != nil {
		return put, err
	}
	put.Warnings = append(put.Warnings, warnings...)
	e.advise(ctx, &put)
	return put, nil
}

// SetPaused pauses or resumes a job; see [carillon.Jobs].
func (e *Engine) SetPaused(ctx context.Context, key carillon.Key, pause carillon.PauseOptions) (carillon.Job, error) {
	if err := checkKey(&key); err != nil {
		return carillon.Job{}, err
	}
	if err := pause.Validate(e.cfg.Limits); err != nil {
		return carillon.Job{}, err
	}
	return ask(ctx, e.partitionOf(key), editCall(key), func(p *partitionRunner, now int64) (carillon.Job, error) {
		return p.m.SetPaused(now, key, pause)
	})
}

// GetJob returns a job as it stands; see [carillon.Jobs].
func (e *Engine) GetJob(ctx context.Context, key carillon.Key) (carillon.Job, error) {
	if err := checkKey(&key); err != nil {
		return carillon.Job{}, err
	}
	job, err := ask(ctx, e.partitionOf(key), jobCall(key), func(p *partitionRunner, _ int64) (carillon.Job, error) {
		return p.m.Job(key)
	})
	if refused(err) {
		job, err = e.storedJob(ctx, key)
	}
	if err == nil {
		err = e.findMissing(ctx, &job)
	}
	return job, err
}

// DeleteJob removes a job; see [carillon.Jobs].
func (e *Engine) DeleteJob(ctx context.Context, key carillon.Key, opts ...carillon.DeleteOption) (carillon.DeleteResult, error) {
	if err := checkKey(&key); err != nil {
		return carillon.DeleteResult{}, err
	}
	return ask(ctx, e.partitionOf(key), editCall(key), func(p *partitionRunner, now int64) (carillon.DeleteResult, error) {
		return p.m.Delete(now, key, opts...)
	})
}

// DeleteJobs removes jobs by prefix; see [carillon.Jobs].
func (e *Engine) DeleteJobs(ctx context.Context, namespace, prefix string) (int, error) {
	namespace = namespaceOf(namespace)
	if err := checkPrefix(namespace, prefix); err != nil {
		return 0, err
	}
	parts := make([]outcome[int], len(e.parts))
	var all sync.WaitGroup
	for i, p := range e.parts {
		all.Go(func() {
			parts[i].value, parts[i].err = across(ctx, e, p, DeleteByPrefix{namespace, prefix})
		})
	}
	all.Wait()
	total := 0
	var worst error
	for _, o := range parts {
		total += o.value
		if o.err != nil && (worst == nil || unknown(o.err)) {
			worst = o.err
		}
	}
	return total, partly(worst, total > 0)
}

// partly sets Unknown in the error of a change of which another part was made.
func partly(err error, others bool) error {
	e, ok := errors.AsType[*carillon.Error](err)
	if !ok || !others || e.Unknown {
		return err
	}
	marked := *e
	marked.Unknown = true
	if errors.Is(err, ErrNotOwner) || errors.Is(err, ErrNotTaken) {
		marked.Err = nil // it would say that nothing was done
	}
	return &marked
}

// unknown reports whether an error leaves open what became of a change.
func unknown(err error) bool {
	e, ok := errors.AsType[*carillon.Error](err)
	return ok && e.Unknown
}

// deletePages removes a partition's jobs by prefix, page by page. If the partition's term changes between two
// pages it starts again: the store may have gone back, and hold jobs again that were removed.
func (e *Engine) deletePages(ctx context.Context, p *partitionRunner, namespace, prefix string) (int, error) {
	total, after := 0, ""
	var term store.Term
	for {
		keys, err := e.names(ctx, p, store.ListQuery{Namespace: namespace, Prefix: prefix, After: after, Limit: carillon.MaxBatch, MaxSpec: 1})
		if err != nil || len(keys) == 0 {
			return total, err
		}
		c := call{pending: true}
		for _, k := range keys {
			c.refs = append(c.refs, store.Ref{Key: k})
		}
		again := false
		n, err := ask(ctx, p, c, func(p *partitionRunner, now int64) (int, error) {
			n := 0
			again = !term.IsZero() && p.own.term != term
			term = p.own.term
			for _, k := range keys {
				// An error means that it is gone already, and is not counted.
				if _, err := p.m.Delete(now, k); err == nil {
					n++
				}
			}
			return n, nil
		})
		total += n
		if err != nil {
			return total, err
		}
		if after = keys[len(keys)-1].Name; again {
			after = ""
		}
	}
}

func (e *Engine) names(ctx context.Context, p *partitionRunner, q store.ListQuery) ([]carillon.Key, error) {
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

// reader returns the partition's shard for reading, without a term.
func (e *Engine) reader(p *partitionRunner) (store.Shard, error) {
	shard, err := e.store.Shard(p.number, store.Term{})
	if err != nil {
		return nil, readError(err)
	}
	return shard, nil
}

// readError returns the error for a caller whose data could not be read.
func readError(err error) error {
	if errors.Is(err, store.ErrDamaged) {
		return dataLoss(err)
	}
	return carillon.Errorf(carillon.Unavailable, "", "the store could not be read: %w", err)
}
