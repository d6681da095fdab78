package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/oklog/ulid/v2"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/audit"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// jobs implements [carillon.Jobs]; the list is in list.go.
type jobs struct {
	cfg          *Config
	partitions   *partitions
	settings     *settings
	dependencies *dependencies
	batches      *batches
	holds        *holds
	quotas       *quotas
}

// PutJob stores a job; see [carillon.Jobs]. A job without a name gets a ULID.
func (j *jobs) PutJob(ctx context.Context, job carillon.Job,
	opts ...carillon.PutOption) (carillon.PutResult, error) {
	return j.put(ctx, job, carillon.PutOptions{}.With(opts...), 0)
}

// put stores a job for a call that was first seen at the time at, in UTC ns; 0 is now.
func (j *jobs) put(ctx context.Context, job carillon.Job, o carillon.PutOptions,
	at int64) (carillon.PutResult, error) {
	j.cfg.Enter(ctx, -1, "")
	if err := j.quotas.mayChange(ctx, job.Key()); err != nil {
		return carillon.PutResult{}, err
	}
	if err := j.room(); err != nil {
		return carillon.PutResult{}, err
	}
	req, err := j.request(ctx, job, o)
	if err != nil {
		return carillon.PutResult{}, err
	}
	warnings, err := j.dependencies.linkOne(ctx, &req)
	if err != nil {
		return carillon.PutResult{}, err
	}
	key := req.Job.Key()
	req.At, req.Trace = at, traceOf(ctx)
	audit.From(ctx).Named(key.Name)
	var put carillon.PutResult
	for again := true; again; { // without withRoom: its closure would be one more allocation of each put
		put, err = inRound(ctx, j.partitions.of(key), changing(ctx, editCall(key)),
			func(p *partitionRunner, now int64) (carillon.PutResult, error) { return p.m.Jobs.Put(now, req) })
		again, err = j.quotas.madeRoom(ctx, err)
	}
	if err != nil {
		return put, err
	}
	j.scheduled(1)
	put.Warnings = append(put.Warnings, warnings...)
	j.advise(ctx, &put)
	return put, nil
}

// room returns the error of a put if the store has no room for more jobs.
func (j *jobs) room() error {
	r, knows := j.cfg.Store.(store.Roomer)
	if !knows {
		return nil
	}
	if err := r.Room(); err != nil {
		return &carillon.Error{Kind: carillon.Unavailable, Message: err.Error(), Err: err}
	}
	return nil
}

// request checks a job, also for its secrets, and makes a put request of it.
func (j *jobs) request(ctx context.Context, job carillon.Job,
	o carillon.PutOptions) (message.PutRequest, error) {
	req, err := j.requestOf(ctx, job, o)
	// What is wrong with the secrets of a webhook, its runs say: its events are not lost for it.
	if err == nil && !strings.HasPrefix(req.Job.Name, carillon.EventJobs) {
		err = j.cfg.checkSecrets(req.Job.Namespace, &req.Job.Target)
	}
	return req, err
}

// requestOf is request for a job whose attempts say what is wrong with its secrets.
func (j *jobs) requestOf(ctx context.Context, job carillon.Job,
	o carillon.PutOptions) (message.PutRequest, error) {
	job.Namespace = namespaceOf(job.Namespace)
	if job.Name == "" {
		id, err := ulid.New(ulid.Timestamp(j.cfg.Now()), j.cfg.Random)
		if err != nil {
			return message.PutRequest{}, fmt.Errorf("random bytes for a name: %w", err)
		}
		job.Name, o.IfAbsent = id.String(), true
	}
	job.Status = nil
	req := message.PutRequest{Job: &job, Options: o}
	if err := job.Validate(j.cfg.Limits); err != nil {
		return req, err
	}
	if err := j.cfg.supports(&job.Target); err != nil {
		return req, err
	}
	if err := j.settings.strict(&job); err != nil {
		return req, err
	}
	if err := j.checkCalendars(ctx, job.Namespace, job.Calendars); err != nil {
		return req, err
	}
	if _, err := io.ReadFull(j.cfg.Random, req.Random[:]); err != nil {
		return req, fmt.Errorf("random bytes for a uid: %w", err)
	}
	// Here, where callers run concurrently, rather than on the lane's goroutine.
	req.Spec = partition.EncodeSpec(&job)
	return req, nil
}

// supports returns an error about a target that this program cannot deliver to.
func (c *Config) supports(t *carillon.Target) error {
	if c.Supports == nil {
		return nil
	}
	return c.Supports(t)
}

// checkSecrets returns an error about a target that refers to a secret which it may not have.
func (c *Config) checkSecrets(namespace string, t *carillon.Target) error {
	if c.Secrets == nil || t.HTTP == nil {
		return nil
	}
	return c.Secrets(namespace, t.HTTP)
}

func (j *jobs) scheduled(n int) {
	if f := j.cfg.Events.Scheduled; f != nil {
		f(n)
	}
}

// PatchJob changes fields of a job; see [carillon.Jobs].
func (j *jobs) PatchJob(ctx context.Context, key carillon.Key,
	patch carillon.Patch) (carillon.PutResult, error) {
	return j.patch(ctx, key, patch, 0)
}

// patch changes a job for a call that was first seen at the time at, in UTC ns; 0 is now.
func (j *jobs) patch(ctx context.Context, key carillon.Key, patch carillon.Patch,
	at int64) (carillon.PutResult, error) {
	if err := cmp.Or(checkKey(&key), j.quotas.mayChange(ctx, key)); err != nil {
		return carillon.PutResult{}, err
	}
	if slices.Contains(patch.Fields, "target") {
		target := &patch.Job.Target
		if err := cmp.Or(j.cfg.supports(target), j.cfg.checkSecrets(key.Namespace, target)); err != nil {
			return carillon.PutResult{}, err
		}
	}
	if err := j.checkPatchedCalendars(ctx, key.Namespace, &patch); err != nil {
		return carillon.PutResult{}, err
	}
	waits, warnings, err := j.dependencies.linkPatch(ctx, key, &patch)
	if err != nil {
		return carillon.PutResult{}, err
	}
	trace := traceOf(ctx)
	put, err := withRoom(ctx, j.quotas, func() (carillon.PutResult, error) {
		return inRound(ctx, j.partitions.of(key), changing(ctx, editCall(key)),
			func(p *partitionRunner, now int64) (carillon.PutResult, error) {
				return p.m.Jobs.Patch(now, at, key, patch, trace, waits...)
			})
	})
	if err != nil {
		return put, err
	}
	put.Warnings = append(put.Warnings, warnings...)
	j.advise(ctx, &put)
	return put, nil
}

// SetPaused pauses or resumes a job; see [carillon.Jobs].
func (j *jobs) SetPaused(ctx context.Context, key carillon.Key,
	pause carillon.PauseOptions) (carillon.Job, error) {
	if err := pause.Validate(j.cfg.Limits); err != nil {
		return carillon.Job{}, err
	}
	return ofJob(ctx, j.partitions, key, changingJob(ctx, editCall),
		func(p *partitionRunner, now int64, key carillon.Key) (carillon.Job, error) {
			return p.m.Jobs.SetPaused(now, key, pause)
		})
}

// GetJob returns a job as it stands; see [carillon.Jobs].
func (j *jobs) GetJob(ctx context.Context, key carillon.Key) (carillon.Job, error) {
	if err := checkKey(&key); err != nil {
		return carillon.Job{}, err
	}
	p := j.partitions.of(key)
	pending := false
	found, err := inRound(ctx, p, jobCall(key), func(p *partitionRunner, now int64) (held[carillon.Job], error) {
		job, err := p.m.Records.Job(key)
		pending = p.m.Records.Pending(key) > 0
		return held[carillon.Job]{job, p.m.Held.OfJob(key, now)}, err
	})
	job := found.value
	switch {
	case refused(err):
		job, err = j.partitions.storedJob(ctx, key, err)
		pending = true // perhaps
	case err == nil:
		job.Status.Hold = j.holds.complete(ctx, p, found.hold)
	}
	if err == nil {
		j.findMissingCalendars(&job)
		err = j.dependencies.findMissing(ctx, &job)
		missing(job.Status)
	}
	if err == nil && pending {
		job.Status.Pending, err = j.partitions.pendingRuns(ctx, key)
	}
	return job, err
}

// ListTimes returns the next times of a job; see [carillon.Timetables]. They are found outside of the lane.
func (j *jobs) ListTimes(ctx context.Context, q carillon.TimesQuery) (carillon.Timetable, error) {
	q.Key.Namespace = namespaceOf(q.Key.Namespace)
	if err := q.Validate(); err != nil {
		return carillon.Timetable{}, err
	}
	at := j.partitions.now()
	found, err := inRound(ctx, j.partitions.of(q.Key), jobCall(q.Key),
		func(p *partitionRunner, now int64) (partition.Upcoming, error) {
			at = now
			return p.m.Jobs.Upcoming(q.Key)
		})
	if refused(err) {
		found, err = j.partitions.storedUpcoming(ctx, q.Key)
	}
	if err != nil {
		return carillon.Timetable{}, err
	}
	return found.Times(at, q), nil
}

// DeleteJob removes a job; see [carillon.Jobs].
func (j *jobs) DeleteJob(ctx context.Context, key carillon.Key,
	opts ...carillon.DeleteOption) (carillon.DeleteResult, error) {
	if err := j.quotas.mayChange(ctx, key); err != nil {
		return carillon.DeleteResult{}, err
	}
	return ofJob(ctx, j.partitions, key, changingJob(ctx, editCall),
		func(p *partitionRunner, now int64, key carillon.Key) (carillon.DeleteResult, error) {
			return p.m.Jobs.Delete(now, key, opts...)
		})
}

// DeleteJobs removes jobs by prefix; see [carillon.Jobs].
func (j *jobs) DeleteJobs(ctx context.Context, namespace, prefix string) (int, error) {
	namespace = namespaceOf(namespace)
	if err := checkPrefix(namespace, prefix); err != nil {
		return 0, err
	}
	if _, err := j.quotas.take(ctx, namespace, 1); err != nil {
		return 0, err
	}
	parts := make([]outcome[int], len(j.partitions.parts))
	var all sync.WaitGroup
	for i, p := range j.partitions.parts {
		all.Go(func() {
			parts[i].value, parts[i].err = across(ctx, j.partitions, p,
				message.DeleteByPrefix{Namespace: namespace, Prefix: prefix})
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
	if errors.Is(err, message.ErrNotOwner) || errors.Is(err, message.ErrNotTaken) {
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
func deletePages(ctx context.Context, p *partitionRunner, namespace, prefix string) (int, error) {
	total, after := 0, ""
	var term store.Term
	for {
		records, err := p.e.reader(p).List(ctx, store.ListQuery{Namespace: namespace, Prefix: prefix,
			After: after, Limit: carillon.MaxBatch, MaxSpec: 1})
		if err != nil {
			return total, readError(err)
		}
		if len(records) == 0 {
			return total, nil
		}
		c := call{pending: true}
		for i := range records {
			c.refs = append(c.refs, records[i].Ref)
		}
		again := false
		n, err := inRound(ctx, p, c, func(p *partitionRunner, now int64) (int, error) {
			n := 0
			again = !term.IsZero() && p.own.term != term
			term = p.own.term
			for _, ref := range c.refs {
				// An error means that it is gone already, and is not counted.
				if _, err := p.m.Jobs.Delete(now, ref.Key); err == nil {
					n++
				}
			}
			return n, nil
		})
		total += n
		if err != nil {
			return total, err
		}
		if after = records[len(records)-1].Name; again {
			after = ""
		}
	}
}

// reader returns the partition's shard for reading, without a term.
func (ps *partitions) reader(p *partitionRunner) store.Shard { return ps.shards[p.number] }

// readError returns the error for a caller whose data could not be read.
func readError(err error) error {
	switch {
	case errors.Is(err, store.ErrSealed):
		return carillon.Errorf(carillon.FailedPrecondition, "", "it cannot be decrypted here: %w", err)
	case errors.Is(err, store.ErrDamaged):
		return dataLoss(err)
	}
	return carillon.Errorf(carillon.Unavailable, "", "the store could not be read: %w", err)
}
