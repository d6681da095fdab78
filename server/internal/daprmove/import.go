package daprmove

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/daprrecord"
)

// Report is the result of an import.
type Report struct {
	Origin string
	Source Digest // what is to be here
	Here   Digest // what is here, before the first of them fires
	Over   int    // never fire again, and were left out
	Before bool   // this state was imported before, and nothing was done now
	Faults []Fault
}

// Whole reports whether everything is here.
func (r *Report) Whole() bool { return len(r.Faults) == 0 && r.Source == r.Here }

// Progress is told how far something is.
type Progress func(stage string, done, total int)

// inFlight is how many calls are made at once.
const inFlight = 64

// large data may be more than fits into one message to a node; other jobs that find no room may find some
// later.
const large = 1 << 20

// importer brings one state in.
type importer struct {
	jobs carillon.Jobs
	from *State
	hold string // the note of jobs that are not let go yet
	told Progress
	mine *holder

	mu     sync.Mutex
	faults []Fault
}

// Import brings all jobs of a state in: paused if absent, then compared, then let go, when the times that
// they missed are made up for. It may be ended at any moment and made again, also by several at once: each
// job comes in once, and none that has ended since comes back.
func Import(ctx context.Context, jobs carillon.Jobs, from *State, told Progress) (*Report, error) {
	im := &importer{jobs: jobs, from: from, told: told, hold: "held until the import " + from.ID + " is whole",
		faults: slices.Clone(from.Faults)}
	source, err := DigestOf(from.Records)
	if err != nil {
		return nil, err
	}
	m := mark{Holder: rand.Text(), Origin: from.Origin, State: from.ID, Source: source,
		History: from.History.oldest(tracesOfMark)}
	if m.Namespaces, err = im.namespaces(); err != nil {
		return nil, err
	}
	err = from.named(ctx, jobs, func(id string) (err error) {
		im.mine, err = claim(ctx, jobs, id, m, func() { told("waiting for another import of the same", 0, 0) })
		return err
	})
	if err != nil {
		return nil, err
	}
	before := im.mine.mark.Phase == done
	if err := im.run(ctx); err != nil {
		return nil, err
	}
	return &Report{Origin: from.Origin, Source: source, Here: im.mine.mark.Here, Over: from.Over, Before: before,
		Faults: im.faults}, nil
}

// run does what is left to do.
func (im *importer) run(ctx context.Context) error {
	if im.mine.mark.Phase == putting {
		var here Digest
		err := im.beating(ctx, func(ctx context.Context) (err error) {
			if err = im.put(ctx); err == nil {
				here, err = im.compare(ctx)
			}
			return err
		})
		if err != nil {
			return err
		}
		im.mine.mark.Here = here
		if err := im.mine.move(ctx, letting); err != nil {
			return err
		}
	}
	if im.mine.mark.Phase == letting {
		if err := im.beating(ctx, im.letGo); err != nil {
			return err
		}
		return im.mine.move(ctx, done)
	}
	return nil
}

// beating does a step while it keeps the mark.
func (im *importer) beating(ctx context.Context, step func(context.Context) error) error {
	g, ctx := errgroup.WithContext(ctx)
	beats, stop := context.WithCancel(ctx)
	g.Go(func() error { return im.mine.beat(beats) })
	g.Go(func() error {
		defer stop()
		return step(ctx)
	})
	return g.Wait()
}

// namespaces returns those of the jobs.
func (im *importer) namespaces() ([]string, error) {
	found := map[string]bool{}
	for i := range im.from.Records {
		job, err := im.from.Records[i].ToJob()
		if err != nil {
			return nil, err
		}
		found[job.Namespace] = true
	}
	return slices.Sorted(maps.Keys(found)), nil
}

func (im *importer) fault(key string, err error) {
	im.mu.Lock()
	defer im.mu.Unlock()
	im.faults = append(im.faults, Fault{key, err})
}

// put puts all jobs that are not here.
func (im *importer) put(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(inFlight)
	for i := range im.from.Records {
		if ctx.Err() != nil {
			break
		}
		im.told("putting jobs", i, len(im.from.Records))
		g.Go(func() error { return im.putOne(ctx, &im.from.Records[i]) })
	}
	return g.Wait()
}

func (im *importer) putOne(ctx context.Context, r *daprrecord.Record) error {
	job, err := r.ToJob()
	if err != nil {
		return err
	}
	job.Paused, job.Note = true, im.hold
	err = im.call(ctx, func(ctx context.Context) error {
		_, err := im.jobs.PutJob(ctx, job, carillon.IfAbsent())
		if errors.Is(err, carillon.ResourceExhausted) && len(job.Data.Bytes) > large {
			return carillon.Errorf(carillon.InvalidArgument, "data", "the node takes no message with %d bytes of data: %v",
				len(job.Data.Bytes), err)
		}
		if !errors.Is(err, carillon.AlreadyExists) {
			return err
		}
		old, err := im.jobs.GetJob(ctx, job.Key())
		if err == nil && !im.holds(&old) {
			im.fault(daprrecord.JobPrefix+r.Name, fmt.Errorf("job %s is here already, and stays as it is", job.Key()))
		}
		return err
	})
	if errors.Is(err, carillon.InvalidArgument) {
		im.fault(daprrecord.JobPrefix+r.Name, err)
		return nil
	}
	return err
}

// call makes a call again and again while that may help, as long as nobody else can have the mark.
func (im *importer) call(ctx context.Context, f func(context.Context) error) error {
	for {
		if err := im.mine.check(); err != nil {
			return err
		}
		once, cancel := context.WithTimeout(ctx, callFor)
		err := f(once)
		cancel()
		if err == nil || !passing(err) {
			return err
		}
		if err := sleep(ctx, askEvery); err != nil {
			return err
		}
	}
}

// holds reports whether a job is one of this import that has not been let go.
func (im *importer) holds(job *carillon.Job) bool { return job.Paused && job.Note == im.hold }

// held calls f with each job that is not let go yet.
func (im *importer) held(ctx context.Context, f func(*carillon.Job)) error {
	for _, namespace := range im.mine.mark.Namespaces {
		err := eachJob(ctx, im.call, im.jobs, namespace, func(job *carillon.Job) {
			if im.holds(job) {
				f(job)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// eachJob calls f with each of Dapr's jobs in a namespace.
func eachJob(ctx context.Context, call func(context.Context, func(context.Context) error) error,
	jobs carillon.Jobs, namespace string, f func(*carillon.Job)) error {
	q := carillon.JobQuery{Namespace: namespace, Prefix: carillon.DaprPrefix, PageSize: page}
	for {
		var got carillon.JobPage
		err := call(ctx, func(ctx context.Context) (err error) {
			got, err = jobs.ListJobs(ctx, q)
			return err
		})
		if err != nil {
			return err
		}
		for i := range got.Jobs {
			f(&got.Jobs[i])
		}
		if q.PageToken = got.NextPageToken; q.PageToken == "" {
			return nil
		}
	}
}

// compare reads all that was put, and names what is not as it was there.
func (im *importer) compare(ctx context.Context) (Digest, error) {
	im.told("comparing", 0, 0)
	here := make(map[string]daprrecord.Record, len(im.from.Records))
	err := im.held(ctx, func(job *carillon.Job) {
		anchor, _, err := job.Life(job.Status.Created)
		job.Paused, job.Status.NextRun = false, anchor // what it will be when it is let go
		var r daprrecord.Record
		if err == nil {
			r, err = daprrecord.FromJob(job)
		}
		if err != nil {
			im.fault(job.Key().String(), err)
			return
		}
		here[r.Name] = r
	})
	if err != nil {
		return Digest{}, err
	}
	for i := range im.from.Records {
		there := &im.from.Records[i]
		r, found := here[there.Name]
		if !found {
			continue // it was named when it was not put
		}
		if err := alike(there, &r); err != nil {
			im.fault(daprrecord.JobPrefix+there.Name, err)
		}
	}
	return DigestOf(slices.Collect(maps.Values(here)))
}

func alike(there, here *daprrecord.Record) error {
	a, err := there.Canonical()
	if err != nil {
		return err
	}
	b, err := here.Canonical()
	if err == nil && !bytes.Equal(a, b) {
		err = fmt.Errorf("here it is another: %q, not %q", b, a)
	}
	return err
}

// letGo lets all jobs fire.
func (im *importer) letGo(ctx context.Context) error {
	for {
		var keys []carillon.Key
		if err := im.held(ctx, func(job *carillon.Job) { keys = append(keys, job.Key()) }); err != nil {
			return err
		}
		if len(keys) == 0 {
			return nil
		}
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(inFlight)
		for i, key := range keys {
			im.told("letting jobs go", i, len(keys))
			g.Go(func() error {
				err := im.call(ctx, func(ctx context.Context) error {
					_, err := im.jobs.SetPaused(ctx, key, carillon.PauseOptions{CatchUp: true})
					return err
				})
				if errors.Is(err, carillon.NotFound) {
					err = nil
				}
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
}
