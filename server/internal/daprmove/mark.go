package daprmove

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon"
)

// A mark is a job of Carillon's that never runs: it says how far the import of one state is. It is changed
// only as the generation that was read, so that one of several that import the same state at once has it: who
// has it beats; the others wait, and take it over when it has not changed for staleAfter by their own clocks.
// Who could not beat for aloneFor stops at once, and none of its calls lasts longer than the difference.
type mark struct {
	Phase  phase  `json:"phase"`
	Holder string `json:"holder"`
	Beat   int    `json:"beat"`
	Origin string `json:"origin"`
	State  string `json:"state"` // its id
	Source Digest `json:"source"`
	Here   Digest `json:"here"` // zero while they are put
	// Namespaces are those of the jobs.
	Namespaces []string `json:"namespaces"`
	// History tells the scheduler from others whose etcd has the same id.
	History History `json:"history"`
}

// phase is how far an import is.
type phase string

// The phases. A job that ended after it was imported must not be put again: so jobs are put paused, and only
// when all are there none is put any more, and they are let go.
const (
	putting phase = "putting"
	letting phase = "letting go"
	done    phase = "done"
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

// errUnfinished is the cause when jobs of another state are here by half.
var errUnfinished = errors.New("an import of another state of the same scheduler has not ended")

// errLost is the cause when another import has the mark.
var errLost = errors.New("another import of the same state has gone on with it")

// holder has a mark.
type holder struct {
	jobs       carillon.Jobs
	key        carillon.Key
	mark       mark
	generation uint64
	sure       atomic.Int64 // until when, UnixNano, nobody else can have it
}

// claim takes the mark of a state, as soon as nobody else has it. If the import is done it returns at once.
func claim(ctx context.Context, jobs carillon.Jobs, id string, m mark, wait func()) (*holder, error) {
	h := &holder{jobs: jobs, mark: m,
		key: carillon.Key{Namespace: carillon.DefaultNamespace, Name: MarkPrefix + id}}
	seen, since := uint64(0), time.Now()
	for {
		err := h.adopt(ctx)
		switch {
		case errors.Is(err, carillon.NotFound):
			h.mark, h.mark.Phase = m, putting
			err = h.write(ctx, carillon.IfAbsent())
		case err == nil && h.mark.State != m.State && h.mark.Phase != done:
			return nil, fmt.Errorf("%w, from %s: begin it again with what it was begun with", errUnfinished, h.mark.Origin)
		case err == nil && h.mark.State != m.State:
			return nil, fmt.Errorf("%w, from %s; if jobs of this one are to come in, too, delete the job %s", ErrOtherState,
				h.mark.Origin, h.key)
		case err != nil || h.mark.Phase == done:
		case h.mark.Holder == "" || h.generation == seen && time.Since(since) >= staleAfter:
			h.mark.Holder = m.Holder
			err = h.write(ctx, carillon.IfGeneration(h.generation))
		default:
			if h.generation != seen {
				seen, since = h.generation, time.Now()
				wait()
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

// adopt reads the mark.
func (h *holder) adopt(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	job, err := h.jobs.GetJob(ctx, h.key)
	if err != nil {
		return err
	}
	var m mark
	if err := json.Unmarshal(job.Data.Bytes, &m); err != nil {
		return fmt.Errorf("job %s is no mark of an import: %w", h.key, err)
	}
	h.mark, h.generation = m, job.Status.Generation
	return nil
}

// write stores the mark.
func (h *holder) write(ctx context.Context, o carillon.PutOption) error {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	h.mark.Beat++
	put, err := h.jobs.PutJob(ctx, carillon.Job{Namespace: h.key.Namespace, Name: h.key.Name,
		Target: carillon.WorkerQueue("dapr-import"), Paused: true, Data: carillon.JSON(h.mark),
		Due:  carillon.At(carillon.LatestTime),
		Note: "how far an import of Dapr's jobs is; without it they could be imported again"}, o)
	if err != nil {
		return err
	}
	h.generation = put.Job.Status.Generation
	h.sure.Store(begun.Add(aloneFor).UnixNano())
	return nil
}

// move stores the next phase.
func (h *holder) move(ctx context.Context, p phase) error {
	h.mark.Phase = p
	return h.again(ctx)
}

// again stores the mark as that of this import, again and again until that is known to have happened, or
// somebody else has it.
func (h *holder) again(ctx context.Context) error {
	mine := h.mark.Holder
	for {
		err := h.write(ctx, carillon.IfGeneration(h.generation))
		if errors.Is(err, carillon.FailedPrecondition) { // also after a write whose answer was lost
			wanted := h.mark
			if err = h.adopt(ctx); err == nil && h.mark.Holder != mine {
				return errLost
			}
			h.mark = wanted
			if err == nil {
				continue
			}
		}
		if err == nil || !passing(err) {
			return err
		}
		if err := sleep(ctx, askEvery); err != nil {
			return err
		}
	}
}

// check returns an error if somebody else may have the mark.
func (h *holder) check() error {
	if time.Now().UnixNano() > h.sure.Load() {
		return errLost
	}
	return nil
}

// beat keeps the mark until ctx ends.
func (h *holder) beat(ctx context.Context) error {
	for sleep(ctx, beatEvery) == nil {
		if err := h.again(ctx); err != nil && ctx.Err() == nil {
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
