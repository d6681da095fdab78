package payload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/carillonhq/carillon"
)

// Edge is where calls come in: data above a size is stored as payloads, and references are looked at, before
// a job refers to them. Everything behind it sees references only.
type Edge struct {
	Store *Store // nil: there is none
	// Above is the most bytes of data that stay with a job; 0: none do.
	Above int
	// Bounds are those of jobs: what exceeds them is refused, not stored.
	Bounds carillon.Bounds
}

// Jobs returns what puts jobs with their payloads.
func (e Edge) Jobs(to carillon.Jobs) carillon.Jobs { return jobs{to, e} }

// Runs returns what triggers runs with their payloads.
func (e Edge) Runs(to carillon.Runs, of carillon.Jobs) carillon.Runs { return runs{to, of, e} }

// large reports whether data does not stay with its job.
func (e Edge) large(d *carillon.Data) bool {
	return e.Store != nil && d.Ref == nil && len(d.Bytes) > e.Above
}

// settle makes what d refers to durable.
func (e Edge) settle(ctx context.Context, namespace string, d *carillon.Data) error {
	var ref carillon.PayloadRef
	var err error
	switch {
	case d.Ref != nil:
		ref, err = e.Store.Ensure(ctx, Namespace(namespace), *d.Ref)
	case e.large(d):
		ref, err = e.Store.PutBytes(ctx, Namespace(namespace), d.Bytes)
	default:
		return nil
	}
	if err != nil {
		return err
	}
	d.Ref, d.Bytes = &ref, nil
	return nil
}

// Namespace returns the namespace, or the default one if it is empty.
func Namespace(namespace string) string {
	if namespace == "" {
		return carillon.DefaultNamespace
	}
	return namespace
}

// Apart reports whether Keep would ask the payload store about some data.
func (e Edge) Apart(d *carillon.Data) bool { return d.Ref != nil || e.large(d) }

// Keep makes the data of a job that is put durable where it belongs.
func (e Edge) Keep(ctx context.Context, j *carillon.Job) error { return e.job(ctx, j) }

// job settles the data of a job that is put. What will be refused for itself is not stored, and jobs of Dapr
// keep their data: their sidecars get it with each run.
func (e Edge) job(ctx context.Context, j *carillon.Job) error {
	if j.Data.Ref == nil && (!e.large(&j.Data) || j.Target.Dapr != nil) {
		return nil
	}
	if err := j.Validate(e.Bounds); err != nil {
		return err
	}
	return e.settle(ctx, j.Namespace, &j.Data)
}

// jobs are calls about jobs.
type jobs struct {
	to   carillon.Jobs // not embedded: a new call fails to compile until it is here
	edge Edge
}

// PutJob implements [carillon.Jobs].
func (j jobs) PutJob(ctx context.Context, job carillon.Job,
	opts ...carillon.PutOption) (carillon.PutResult, error) {
	if err := j.edge.job(ctx, &job); err != nil {
		return carillon.PutResult{}, err
	}
	return j.to.PutJob(ctx, job, opts...)
}

// atOnce is how many payloads of a batch are stored at the same time.
const atOnce = 16

// PutJobs implements [carillon.Jobs].
func (j jobs) PutJobs(ctx context.Context, all []carillon.Job) ([]carillon.PutResult, error) {
	if len(all) > carillon.MaxBatch || j.edge.Store == nil && !anyRef(all) {
		return j.to.PutJobs(ctx, all)
	}
	all = append([]carillon.Job(nil), all...)
	faults := make([]error, len(all))
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range all {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			faults[i] = j.edge.job(ctx, &all[i])
		})
	}
	wg.Wait()
	for i, err := range faults {
		if err != nil {
			return nil, within(i, err)
		}
	}
	return j.to.PutJobs(ctx, all)
}

func anyRef(all []carillon.Job) bool {
	for i := range all {
		if all[i].Data.Ref != nil {
			return true
		}
	}
	return false
}

// within names the job of a batch that an error is about.
func within(i int, err error) error {
	field := fmt.Sprintf("jobs[%d]", i)
	if e, ok := errors.AsType[*carillon.Error](err); ok && e.Field != "" {
		field += "." + e.Field
	}
	return carillon.WithField(err, field)
}

// PatchJob implements [carillon.Jobs].
func (j jobs) PatchJob(ctx context.Context, key carillon.Key,
	patch carillon.Patch) (carillon.PutResult, error) {
	d := &patch.Job.Data
	named := slices.Contains(patch.Fields, "data") || slices.Contains(patch.Fields, "payload")
	settles := named && d.Ref != nil
	if settles || named && j.edge.large(d) {
		if err := validKey(key); err != nil {
			return carillon.PutResult{}, err
		}
	}
	if named && j.edge.large(d) {
		dapr, err := ofDapr(ctx, j.to, key)
		if err != nil {
			return carillon.PutResult{}, err
		}
		settles = !dapr
	}
	if settles {
		if err := (&carillon.TriggerOptions{Data: d}).Validate(j.edge.Bounds); err != nil {
			return carillon.PutResult{}, err
		}
		if err := j.edge.settle(ctx, key.Namespace, d); err != nil {
			return carillon.PutResult{}, err
		}
	}
	return j.to.PatchJob(ctx, key, patch)
}

// validKey returns what is wrong with the key of a job, before its namespace is part of an object's name.
func validKey(key carillon.Key) error {
	key.Namespace = Namespace(key.Namespace)
	return key.Validate()
}

// ofDapr reports whether a job is one of Dapr's.
func ofDapr(ctx context.Context, from carillon.Jobs, key carillon.Key) (bool, error) {
	job, err := from.GetJob(ctx, key)
	return job.Target.Dapr != nil, err
}

// SetPaused implements [carillon.Jobs].
func (j jobs) SetPaused(ctx context.Context, key carillon.Key,
	p carillon.PauseOptions) (carillon.Job, error) {
	return j.to.SetPaused(ctx, key, p)
}

// GetJob implements [carillon.Jobs].
func (j jobs) GetJob(ctx context.Context, key carillon.Key) (carillon.Job, error) {
	return j.to.GetJob(ctx, key)
}

// ListJobs implements [carillon.Jobs].
func (j jobs) ListJobs(ctx context.Context, q carillon.JobQuery) (carillon.JobPage, error) {
	return j.to.ListJobs(ctx, q)
}

// DeleteJob implements [carillon.Jobs].
func (j jobs) DeleteJob(ctx context.Context, key carillon.Key,
	opts ...carillon.DeleteOption) (carillon.DeleteResult, error) {
	return j.to.DeleteJob(ctx, key, opts...)
}

// DeleteJobs implements [carillon.Jobs].
func (j jobs) DeleteJobs(ctx context.Context, namespace, prefix string) (int, error) {
	return j.to.DeleteJobs(ctx, namespace, prefix)
}

// runs are calls about runs.
type runs struct {
	to   carillon.Runs
	jobs carillon.Jobs
	edge Edge
}

// TriggerJob implements [carillon.Runs].
func (r runs) TriggerJob(ctx context.Context, key carillon.Key,
	opts ...carillon.TriggerOption) (carillon.Run, error) {
	o := carillon.TriggerOptions{}.With(opts...)
	if err := r.edge.KeepTrigger(ctx, r.jobs, key, &o); err != nil {
		return carillon.Run{}, err
	}
	return r.to.TriggerJob(ctx, key, o)
}

// KeepTrigger makes the data of a run that is triggered durable where it belongs.
func (e Edge) KeepTrigger(ctx context.Context, jobs carillon.Jobs, key carillon.Key,
	o *carillon.TriggerOptions) error {
	if o.Data == nil || o.Data.Ref == nil && !e.large(o.Data) {
		return nil
	}
	if err := validKey(key); err != nil {
		return err
	}
	if err := o.Validate(e.Bounds); err != nil {
		return err
	}
	dapr, err := ofDapr(ctx, jobs, key)
	if err != nil || dapr && o.Data.Ref == nil {
		return err
	}
	d := *o.Data
	if err := e.settle(ctx, key.Namespace, &d); err != nil {
		return err
	}
	o.Data = &d
	return nil
}

// SkipRun implements [carillon.Runs].
func (r runs) SkipRun(ctx context.Context, key carillon.Key) (carillon.SkipResult, error) {
	return r.to.SkipRun(ctx, key)
}

// ListRuns implements [carillon.Runs].
func (r runs) ListRuns(ctx context.Context, q carillon.RunQuery) (carillon.RunPage, error) {
	return r.to.ListRuns(ctx, q)
}

// GetRun implements [carillon.Runs].
func (r runs) GetRun(ctx context.Context, namespace, id string) (carillon.Run, error) {
	return r.to.GetRun(ctx, namespace, id)
}

// CancelRun implements [carillon.Runs].
func (r runs) CancelRun(ctx context.Context, namespace, id string) (carillon.CancelResult, error) {
	return r.to.CancelRun(ctx, namespace, id)
}

// RedriveRun implements [carillon.Runs].
func (r runs) RedriveRun(ctx context.Context, namespace, id string) (carillon.Run, error) {
	return r.to.RedriveRun(ctx, namespace, id)
}

// RedriveRuns implements [carillon.Runs].
func (r runs) RedriveRuns(ctx context.Context, namespace, job string) (int, error) {
	return r.to.RedriveRuns(ctx, namespace, job)
}

// CompleteRun implements [carillon.Runs].
func (r runs) CompleteRun(ctx context.Context, namespace string, result carillon.Result) error {
	return r.to.CompleteRun(ctx, namespace, result)
}
