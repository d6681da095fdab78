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
	Before bool   // this state was imported before
	Faults []Fault

	Retried   int // jobs that an import before had refused, which were tried again
	Unkept    int // jobs that were left out and are never tried again, because too many were
	TakenBack int // jobs of another state that were removed, because its import was cut off while it put
	Left      int // jobs that were left out
}

// Whole reports whether everything is here.
func (r *Report) Whole() bool { return r.Left == 0 && r.Source == r.Here }

// Progress is told how far something is.
type Progress func(stage string, done, total int)

// inFlight is how many calls are made at once.
const inFlight = 64

// large data may be more than fits into one message to a node; other jobs that find no room may find some
// later.
const large = 1 << 20

// importer brings one state in.
type importer struct {
	jobs   carillon.Jobs
	from   *State
	told   Progress
	mine   *holder
	before bool            // an import before has ended
	all    bool            // this one has put all, and named what was refused
	again  map[string]bool // the keys of the jobs that were refused then, and are tried again

	mu      sync.Mutex
	faults  []Fault
	named   map[string]bool       // the keys of the faults
	refused map[string]bool       // see leftOut
	taken   map[string]bool       // likewise
	back    map[carillon.Key]bool // what was taken back
}

// Import brings all jobs of a state in: paused if absent, then compared, then let go, when the times that
// they missed are made up for. It may be ended at any moment and made again, also by several at once: each
// job comes in once, and none that has ended since comes back. The jobs of another state of the same
// scheduler are removed first if its import was cut off while it put: none of them has fired.
func Import(ctx context.Context, jobs carillon.Jobs, from *State, told Progress) (*Report, error) {
	im := &importer{jobs: jobs, from: from, told: told, named: map[string]bool{}, refused: map[string]bool{},
		taken: map[string]bool{}, back: map[carillon.Key]bool{}}
	for _, f := range from.Faults {
		im.fault(f.Key, f.Err)
	}
	source, err := DigestOf(from.Records)
	if err != nil {
		return nil, err
	}
	m := mark{Phase: putting, Holder: rand.Text(), Origin: from.Origin, State: from.ID, Source: source,
		History: from.History.sample(tracesOfMark)}
	if m.Namespaces, err = im.namespaces(); err != nil {
		return nil, err
	}
	err = from.named(ctx, jobs, func(id string) (err error) {
		im.mine, err = claim(ctx, jobs, id, m, from.owns,
			func(l *leftOut) bool { return len(im.refusedBefore(l)) > 0 },
			func(origin string) { told("waiting for another import, from "+origin, 0, 0) })
		return err
	})
	if err != nil {
		return nil, err
	}
	m = im.mine.now()
	im.before = m.Phase == done || m.Phase == mending
	if m.State != from.ID {
		err = im.endOther(ctx, &m)
	} else {
		err = im.run(ctx)
	}
	if err != nil {
		return nil, err
	}
	return im.report(), nil
}

// run does what is left to do.
func (im *importer) run(ctx context.Context) error {
	for tried := false; ; {
		next := im.mine.now()
		var err error
		switch next.Phase {
		case putting, mending:
			tried, err = true, im.beating(ctx, func(ctx context.Context) error { return im.bringIn(ctx, &next) })
			next.Phase = letting
		case letting:
			err = im.beating(ctx, im.letGo)
			next.Phase = done
			if !tried && len(im.refusedBefore(&next.LeftOut)) > 0 {
				next.Phase = mending
			}
		case done:
			return nil
		default:
			err = fmt.Errorf("the job %s is of another version: %q is no phase of an import", im.mine.key, next.Phase)
		}
		if err == nil {
			err = im.mine.again(ctx, next)
		}
		if err != nil {
			return err
		}
	}
}

// bringIn puts what is to come in, and sets in the mark what is here then and what was left out.
func (im *importer) bringIn(ctx context.Context, m *mark) error {
	records := im.from.Records
	if m.Phase == mending {
		im.again = im.refusedBefore(&m.LeftOut)
		records = slices.DeleteFunc(slices.Clone(records),
			func(r daprrecord.Record) bool { return !im.again[keyOf(&r)] })
		set(im.taken, m.LeftOut.Taken)
		set(im.refused, m.LeftOut.Refused)
		maps.DeleteFunc(im.refused, func(key string, _ bool) bool { return im.again[key] })
	} else {
		im.all = true
		for _, f := range im.from.Faults {
			im.refused[f.Key] = true
		}
	}
	if _, err := im.takeBack(ctx, m.Back); err != nil {
		return err
	}
	// Again if a job of a state that is taken back stood in the way: an import that ended long ago has put it.
	for late := true; late; {
		err := im.put(ctx, records)
		if err == nil {
			late, err = im.takeBack(ctx, m.Back)
		}
		if err != nil {
			return err
		}
	}
	here, err := im.compare(ctx, records)
	if err != nil {
		return err
	}
	m.Here, err = m.Here.plus(here)
	m.Back, m.LeftOut = nil, bounded(im.refused, im.taken, m.LeftOut.Unkept)
	return err
}

// report says what has become of all.
func (im *importer) report() *Report {
	m := im.mine.now()
	for _, key := range m.LeftOut.Taken {
		im.fault(key, errors.New("a job of its name was here before it, or it had gone before it was let go; that may have ended "+
			"since, so it is not tried again"))
	}
	r := &Report{Origin: im.from.Origin, Source: m.Source, Here: m.Here, Over: im.from.Over, Before: im.before,
		Faults: im.faults, Retried: len(im.again), Unkept: m.LeftOut.Unkept,
		TakenBack: len(im.back), Left: len(im.faults)}
	if !im.all {
		r.Left += r.Unkept
	}
	return r
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
	if !im.named[key] {
		im.named[key] = true
		im.faults = append(im.faults, Fault{key, err})
	}
}

// put puts all jobs that are not here.
func (im *importer) put(ctx context.Context, records []daprrecord.Record) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(inFlight)
	for i := range records {
		if ctx.Err() != nil {
			break
		}
		im.told("putting jobs", i, len(records))
		g.Go(func() error { return im.putOne(ctx, &records[i]) })
	}
	return g.Wait()
}

func (im *importer) putOne(ctx context.Context, r *daprrecord.Record) error {
	job, err := r.ToJob()
	if err != nil {
		return err
	}
	job.Paused, job.Note = true, noteOf(im.from.ID)
	taken := false
	err = im.call(ctx, func(ctx context.Context) error {
		_, err := im.jobs.PutJob(ctx, job, carillon.IfAbsent())
		if !errors.Is(err, carillon.AlreadyExists) {
			return refusal(err, &job)
		}
		old, err := im.jobs.GetJob(ctx, job.Key())
		if errors.Is(err, carillon.NotFound) { // it has ended in this moment
			return carillon.Errorf(carillon.Unavailable, "name", "job %s was here and has gone", job.Key())
		}
		taken = err == nil && !holds(&old, im.from.ID) && !untouched(&old, im.mine.now().Back)
		return err
	})
	key := keyOf(r)
	if taken {
		im.fault(key, fmt.Errorf("job %s is here already, and stays as it is", job.Key()))
		im.leave(im.taken, key)
	}
	if no, ok := errors.AsType[refusedError](err); ok {
		im.fault(key, no.error)
		im.leave(im.refused, key)
		return nil
	}
	return err
}

// leave notes the key of a job that is left out.
func (im *importer) leave(out map[string]bool, key string) {
	im.mu.Lock()
	defer im.mu.Unlock()
	out[key] = true
}

// isHere notes that a job is here although it was refused: it had been put before, by another node or by a
// call whose answer was lost.
func (im *importer) isHere(key string) {
	if !im.refused[key] {
		return
	}
	delete(im.refused, key)
	im.faults = slices.DeleteFunc(im.faults, func(f Fault) bool { return f.Key == key })
	delete(im.named, key)
}

// refusedError is an error about a job, which would be the same in a moment.
type refusedError struct{ error }

// refusal returns the error of a put, as one about the job if it is.
func refusal(err error, job *carillon.Job) error {
	e, known := errors.AsType[*carillon.Error](err)
	switch {
	case known && (e.Kind == carillon.InvalidArgument || e.Kind == carillon.ResourceExhausted && e.Field != ""):
		return refusedError{err}
	case known && e.Kind == carillon.ResourceExhausted && len(job.Data.Bytes) > large:
		return refusedError{carillon.Errorf(carillon.InvalidArgument, "data",
			"the node takes no message with %d bytes of data: %v", len(job.Data.Bytes), err)}
	}
	return err
}

// call makes a call again and again while that may help, as long as nobody else can have the mark.
func (im *importer) call(ctx context.Context, f func(context.Context) error) error {
	for {
		if err := im.mine.alone(ctx); err != nil {
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
func (im *importer) compare(ctx context.Context, records []daprrecord.Record) (Digest, error) {
	im.told("comparing", 0, 0)
	here := make(map[string]daprrecord.Record, len(records))
	err := im.held(ctx, []string{im.from.ID}, func(job *carillon.Job) {
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
	for i := range records {
		there := &records[i]
		r, found := here[there.Name]
		if !found {
			im.gone(keyOf(there))
			continue
		}
		im.isHere(keyOf(there))
		if err := alike(there, &r); err != nil {
			im.fault(keyOf(there), err)
		}
	}
	return DigestOf(slices.Collect(maps.Values(here)))
}

// gone names a job that is not here, if it was not named when it was not put: somebody has removed it, or let
// it go. It may have ended since, so it is not put again.
func (im *importer) gone(key string) {
	if !im.refused[key] && !im.taken[key] {
		im.fault(key, errors.New("it was put, and somebody has deleted or resumed it before the others were there"))
		im.leave(im.taken, key)
	}
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
	state := im.mine.now().State
	for {
		var keys []carillon.Key
		err := im.held(ctx, []string{state}, func(job *carillon.Job) { keys = append(keys, job.Key()) })
		if err != nil {
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
				return im.call(ctx, func(ctx context.Context) error { return im.resume(ctx, key, state) })
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
}

// resume lets one job fire, unless somebody has changed it since it was listed.
func (im *importer) resume(ctx context.Context, key carillon.Key, state string) error {
	job, err := im.jobs.GetJob(ctx, key)
	if err == nil && holds(&job, state) {
		_, err = im.jobs.SetPaused(ctx, key, carillon.PauseOptions{CatchUp: true})
	}
	if errors.Is(err, carillon.NotFound) {
		return nil
	}
	return err
}
