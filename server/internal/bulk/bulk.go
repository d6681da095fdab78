// Package bulk acts on all runs or jobs that a query selects. It lists a page of them and makes for each the
// call that acts on one, so that routing, fencing and durability are those of that call.
package bulk

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/carillonhq/carillon"
)

// Calls are the calls that bulk actions are made of.
type Calls interface {
	ListRuns(ctx context.Context, q carillon.RunQuery) (carillon.RunPage, error)
	CancelRun(ctx context.Context, namespace, id string) (carillon.CancelResult, error)
	RedriveRun(ctx context.Context, namespace, id string) (carillon.Run, error)

	ListJobs(ctx context.Context, q carillon.JobQuery) (carillon.JobPage, error)
	TriggerJob(ctx context.Context, key carillon.Key,
		opts ...carillon.TriggerOption) (carillon.Run, error)
	DeleteJob(ctx context.Context, key carillon.Key,
		opts ...carillon.DeleteOption) (carillon.DeleteResult, error)
	SetPaused(ctx context.Context, key carillon.Key, p carillon.PauseOptions) (carillon.Job, error)
}

// Actions implements [carillon.Bulk].
type Actions struct {
	Calls  Calls
	Bounds carillon.Bounds // of notes
}

var _ carillon.Bulk = Actions{}

// BulkRuns cancels or redrives runs; see [carillon.Bulk].
func (a Actions) BulkRuns(ctx context.Context, b carillon.BulkRuns) (carillon.BulkResult, error) {
	if err := b.Validate(); err != nil {
		return carillon.BulkResult{}, err
	}
	q := b.Query
	if b.Action == carillon.RunRedrive {
		q.Statuses = []carillon.RunStatus{carillon.RunDead}
	}
	page, err := a.Calls.ListRuns(ctx, q)
	if err != nil {
		return carillon.BulkResult{}, err
	}
	p := pageOf{next: page.NextPageToken, dryRun: b.DryRun}
	for i := range page.Runs {
		r := &page.Runs[i]
		if b.Action == carillon.RunCancel && r.Status.Finished() {
			p.next = "" // unfinished runs come first, so none follows
			break
		}
		p.items = append(p.items, item{name: r.ID, do: func() (err error) {
			if b.Action == carillon.RunRedrive {
				_, err = a.Calls.RedriveRun(ctx, r.Namespace, r.ID)
			} else {
				_, err = a.Calls.CancelRun(ctx, r.Namespace, r.ID)
			}
			return err
		}})
	}
	return p.act(ctx)
}

// BulkJobs triggers, deletes, pauses or resumes jobs; see [carillon.Bulk].
func (a Actions) BulkJobs(ctx context.Context, b carillon.BulkJobs) (carillon.BulkResult, error) {
	if err := b.Validate(a.Bounds); err != nil {
		return carillon.BulkResult{}, err
	}
	page, err := a.Calls.ListJobs(ctx, b.Query)
	if err != nil {
		return carillon.BulkResult{}, err
	}
	p := pageOf{next: page.NextPageToken, dryRun: b.DryRun}
	for i := range page.Jobs {
		p.items = append(p.items, a.onJob(ctx, &b, &page.Jobs[i]))
	}
	return p.act(ctx)
}

// onJob is what to do to a job.
func (a Actions) onJob(ctx context.Context, b *carillon.BulkJobs, j *carillon.Job) item {
	it := item{name: j.Name}
	switch b.Action {
	case carillon.JobTrigger:
		it.do = func() error {
			_, err := a.Calls.TriggerJob(ctx, j.Key())
			return err
		}
	case carillon.JobDelete:
		it.do = func() error {
			_, err := a.Calls.DeleteJob(ctx, j.Key(), carillon.IfGeneration(j.Status.Generation))
			return err
		}
	default:
		want := carillon.PauseOptions{Paused: b.Action == carillon.JobPause, Note: b.Note, CatchUp: b.CatchUp}
		it.done = j.Paused == want.Paused && (b.Note == "" || b.Note == j.Note)
		it.do = func() error {
			_, err := a.Calls.SetPaused(ctx, j.Key(), want)
			return err
		}
	}
	return it
}

// item is one run or job that a call acts on.
type item struct {
	name string
	done bool // it is as it is to be
	do   func() error
}

// pageOf is what one call acts on.
type pageOf struct {
	items  []item
	next   string // page token
	dryRun bool
}

// act does to each item what is to be done, and sums up.
func (p *pageOf) act(ctx context.Context) (carillon.BulkResult, error) {
	r := carillon.BulkResult{Matched: len(p.items), NextPageToken: p.next}
	p.items = slices.DeleteFunc(p.items, func(it item) bool { return it.done })
	errs := make([]error, len(p.items))
	if !p.dryRun {
		errs = p.each(ctx)
		if ctx.Err() != nil {
			return carillon.BulkResult{}, interrupted(ctx.Err())
		}
	}
	for i, err := range errs {
		name := p.items[i].name
		switch {
		case err == nil:
			if r.Changed++; len(r.Names) < carillon.MaxBulkShown {
				r.Names = append(r.Names, name)
			}
		case !gone(err):
			if r.Failed++; len(r.Failures) < carillon.MaxBulkShown {
				r.Failures = append(r.Failures, carillon.BulkFailure{Name: name, Reason: err.Error()})
			}
		}
	}
	return r, nil
}

// atOnce is how many calls are made concurrently. Each waits for the store.
const atOnce = 16

// each acts on the items, several at once, and returns their errors. It stops when ctx ends.
func (p *pageOf) each(ctx context.Context) []error {
	errs := make([]error, len(p.items))
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(atOnce, len(p.items)) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(p.items) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				errs[i] = p.items[i].do()
			}
		})
	}
	all.Wait()
	return errs
}

// gone reports whether an item was not changed because it is no longer what the query selected.
func gone(err error) bool {
	kind := carillon.KindOf(err)
	return kind == carillon.NotFound || kind == carillon.FailedPrecondition
}

// interrupted is the error of a call whose time was over before it had acted on all.
func interrupted(cause error) error {
	kind := carillon.DeadlineExceeded
	if errors.Is(cause, context.Canceled) {
		kind = carillon.Canceled
	}
	e := carillon.Errorf(kind, "", "some of them may have been changed; repeat the call")
	e.Unknown, e.Err = true, cause
	return e
}
