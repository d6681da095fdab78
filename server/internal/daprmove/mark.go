package daprmove

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
)

// A mark is a job of Carillon's that never runs: it says how far the import of one state is. It is changed
// only as the generation that was read, so that one of several imports of a scheduler at once has it: who has
// it beats; the others wait, and take it over when it has not changed for staleAfter by their own clocks. Who
// could not beat for aloneFor makes no calls until it has, and none lasts longer than the difference.
type mark struct {
	Phase  phase  `json:"phase"`
	Holder string `json:"holder"`
	Beat   int    `json:"beat"`
	Origin string `json:"origin"`
	State  string `json:"state"` // its id
	Source Digest `json:"source"`
	Here   Digest `json:"here"` // zero while they are put
	// Namespaces are those of the jobs, also of the states in Back.
	Namespaces []string `json:"namespaces"`
	// History tells the scheduler from others whose etcd has the same id.
	History History `json:"history"`
	// Back are states whose imports were cut off while they put: their jobs are taken back.
	Back    []string `json:"taken_back,omitempty"`
	LeftOut leftOut  `json:"left_out,omitzero"`
}

// phase is how far an import is.
type phase string

// The phases. A job that ended after it was imported must not be put again: so jobs are put paused, and only
// when all are there none is put any more, and they are let go. What was refused has not been here, so it may
// be put when all others have been let go.
const (
	putting phase = "putting"
	letting phase = "letting go"
	done    phase = "done"
	mending phase = "putting what was refused"
)

// MarkPrefix begins the names of marks, in the default namespace.
const MarkPrefix = "dapr-import/"

// Times of a mark.
const (
	beatEvery  = 2 * time.Second
	aloneFor   = 8 * time.Second
	callFor    = 5 * time.Second
	staleAfter = 15 * time.Second
	askEvery   = time.Second
)

// ErrOtherState is the cause of an error about a scheduler of which another state was imported: what has
// ended here since may be in this one still.
var ErrOtherState = errors.New("another state of the same scheduler was imported")

// ErrLost is the cause of an error about an import in whose place another has gone on, because it was not
// heard of for too long.
var ErrLost = errors.New("another import has gone on in the place of this one")

// takenBy returns the mark with which the import that m describes takes over from old: it goes on with the
// same state, takes another one back whose jobs have never fired, and otherwise only ends what old began.
func (m *mark) takenBy(old *mark) mark {
	next := *old
	switch {
	case old.State == m.State:
		next.Source = m.Source
		next.Namespaces = union(old.Namespaces, m.Namespaces)
		if old.Phase == done {
			next.Phase = mending
		}
	case old.Phase == putting:
		next = *m
		next.Namespaces = union(old.Namespaces, m.Namespaces)
		next.Back = slices.DeleteFunc(union(old.Back, []string{old.State}),
			func(state string) bool { return state == m.State })
	}
	next.Holder, next.Beat = m.Holder, old.Beat
	return next
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// holder has a mark.
type holder struct {
	jobs carillon.Jobs
	key  carillon.Key
	name string // in the mark

	mu         sync.Mutex
	mark       mark
	generation uint64
	beats      int
	sure       int64         // until when, UnixNano, nobody else can have it
	known      chan struct{} // is closed when that becomes later
}

// claim takes the mark of a scheduler for a state, as soon as nobody else has it. If there is nothing to do
// any more it returns at once. The mark may be of another state, whose import has to be ended, if ours says
// that it is of the same scheduler.
func claim(ctx context.Context, jobs carillon.Jobs, id string, m mark, ours func(*mark) bool,
	retry func(*leftOut) bool, wait func(origin string)) (*holder, error) {
	h := &holder{jobs: jobs, name: m.Holder, known: make(chan struct{}),
		key: carillon.Key{Namespace: carillon.DefaultNamespace, Name: MarkPrefix + id}}
	seen, since := uint64(0), time.Now()
	for {
		old, err := h.read(ctx)
		ended := err == nil && old.Phase == done
		stale := err == nil && h.generation == seen && time.Since(since) >= staleAfter
		switch {
		case errors.Is(err, carillon.NotFound):
			err = h.write(ctx, m, carillon.IfAbsent())
		case err != nil:
		case old.State != m.State && (ended || !ours(&old)):
			return nil, h.otherState(&old)
		case ended && !retry(&old.LeftOut):
			h.mark = old
		case ended || stale || old.Holder == m.Holder: // the last after a write whose answer was lost
			err = h.write(ctx, m.takenBy(&old), carillon.IfGeneration(h.generation))
		default:
			if h.generation != seen {
				seen, since = h.generation, time.Now()
				wait(old.Origin)
			}
			err = carillon.Unavailable
		}
		if err == nil {
			return h, nil
		}
		overtaken := errors.Is(err, carillon.AlreadyExists) || errors.Is(err, carillon.FailedPrecondition)
		if !overtaken && !passing(err) {
			return nil, err
		}
		if err := sleep(ctx, askEvery); err != nil {
			return nil, err
		}
	}
}

// otherState returns the error about a state when that of m is here.
func (h *holder) otherState(m *mark) error {
	return fmt.Errorf("%w, from %s; if jobs of this one are to come in, too, delete the job %s", ErrOtherState,
		m.Origin, h.key)
}

// read returns the mark as it is stored, and notes its generation.
func (h *holder) read(ctx context.Context) (m mark, err error) {
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	job, err := h.jobs.GetJob(ctx, h.key)
	if err != nil {
		return m, err
	}
	if m, err = markOf(&job); err != nil {
		return m, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.generation = job.Status.Generation
	return m, nil
}

// markOf returns the mark that a job is.
func markOf(job *carillon.Job) (m mark, err error) {
	if job.Data.Ref != nil {
		return m, fmt.Errorf("job %s, the mark of an import, has its data in the payload store, of which nothing is read here: "+
			"give the nodes a larger --payload-above until all jobs have moved", job.Key())
	}
	if err := json.Unmarshal(job.Data.Bytes, &m); err != nil {
		return m, fmt.Errorf("job %s is no mark of an import: %w", job.Key(), err)
	}
	return m, nil
}

// write stores a mark. No two are alike, so each that is stored changes the generation.
func (h *holder) write(ctx context.Context, m mark, o carillon.PutOption) error {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	h.mu.Lock()
	h.beats = max(h.beats, m.Beat) + 1
	m.Beat = h.beats
	h.mu.Unlock()
	put, err := h.jobs.PutJob(ctx, carillon.Job{Namespace: h.key.Namespace, Name: h.key.Name,
		Target: carillon.WorkerQueue("dapr-import"), Paused: true, Data: carillon.JSON(m),
		Due:  carillon.At(carillon.LatestTime),
		Note: "how far an import of Dapr's jobs is; without it they could be imported again"}, o)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mark, h.generation, h.sure = m, put.Job.Status.Generation, begun.Add(aloneFor).UnixNano()
	close(h.known)
	h.known = make(chan struct{})
	return nil
}

// now returns the mark as it was stored last.
func (h *holder) now() mark {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mark
}

// again stores the mark of this import, again and again until that is known to have happened, or somebody
// else has it.
func (h *holder) again(ctx context.Context, m mark) error {
	for {
		h.mu.Lock()
		generation := h.generation
		h.mu.Unlock()
		err := h.write(ctx, m, carillon.IfGeneration(generation))
		if errors.Is(err, carillon.FailedPrecondition) { // also after a write whose answer was lost
			var stored mark
			if stored, err = h.read(ctx); err == nil {
				if stored.Holder != h.name {
					return fmt.Errorf("%w, from %s", ErrLost, stored.Origin)
				}
				continue
			}
		}
		if errors.Is(err, carillon.NotFound) {
			return fmt.Errorf("the job %s, which says how far the import is, was deleted meanwhile", h.key)
		}
		if err == nil || !passing(err) {
			return err
		}
		if err := sleep(ctx, askEvery); err != nil {
			return err
		}
	}
}

// alone returns when it is certain that nobody else has the mark: at once, if it could be written lately. If
// somebody else has it, beat ends ctx.
func (h *holder) alone(ctx context.Context) error {
	for {
		h.mu.Lock()
		sure, known := h.sure, h.known
		h.mu.Unlock()
		if time.Now().UnixNano() <= sure {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-known:
		}
	}
}

// beat keeps the mark until ctx ends.
func (h *holder) beat(ctx context.Context) error {
	for sleep(ctx, beatEvery) == nil {
		if err := h.again(ctx, h.now()); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// passing reports whether a call may succeed when it is made again: it changes nothing twice.
func passing(err error) bool {
	return errors.Is(err, carillon.Unavailable) || errors.Is(err, carillon.DeadlineExceeded) ||
		errors.Is(err, carillon.ResourceExhausted) || errors.Is(err, context.DeadlineExceeded)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
