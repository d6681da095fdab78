package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
)

// Why a handler's context ended, by [context.Cause].
var (
	ErrCancelled = errors.New("worker: the run was cancelled")
	ErrStale     = errors.New("worker: the attempt is not in force any more")
	ErrLeaving   = errors.New("worker: the worker is leaving")
)

// Discard is err as a failure that must not be tried again: the run is exhausted, whatever its failure policy. Discard of
// nil is nil.
func Discard(err error) error {
	if err == nil {
		return nil
	}
	return &discarded{err}
}

type discarded struct{ err error }

// Error implements error.
func (d *discarded) Error() string { return d.err.Error() }

// Unwrap is the cause.
func (d *discarded) Unwrap() error { return d.err }

// RetryAfter is err as a failure that is tried again no earlier than after d; the failure policy may make it later, or say
// that there is no further attempt. err may be nil.
func RetryAfter(d time.Duration, err error) error { return &delayed{max(0, d), err} }

type delayed struct {
	after time.Duration
	err   error
}

// Error implements error.
func (d *delayed) Error() string {
	if d.err == nil {
		return "to be tried again after " + d.after.String()
	}
	return d.err.Error()
}

// Unwrap is the cause.
func (d *delayed) Unwrap() error { return d.err }

// Reschedule says that the run is not done, and has not failed: the same run is attempted again at t, with fresh retries. A
// past t is at once.
func Reschedule(t time.Time) error { return &rescheduled{t} }

type rescheduled struct{ at time.Time }

// Error implements error.
func (r *rescheduled) Error() string {
	if !carillon.Storable(r.at) {
		return fmt.Sprintf("worker.Reschedule: %v is no time that a run can have", r.at)
	}
	return "to be attempted again at " + r.at.UTC().Format(time.RFC3339Nano)
}

// resultOf is what a handler's return means.
func resultOf(run *carillon.Run, err error) carillon.Result {
	r := carillon.Result{Token: run.Token, RunID: run.ID}
	if err == nil {
		r.Outcome = carillon.OutcomeSuccess
		return r
	}
	_, r.Permanent = errors.AsType[*discarded](err)
	if later, ok := errors.AsType[*rescheduled](err); ok && !r.Permanent && carillon.Storable(later.at) {
		r.Outcome, r.At = carillon.OutcomeReschedule, later.at
		return r
	}
	r.Message = shorten(err.Error())
	if d, ok := errors.AsType[*delayed](err); ok {
		r.RetryAfter = d.after
	}
	return r
}

// shorten keeps what a run keeps of a message, in whole characters.
func shorten(s string) string {
	if len(s) > carillon.MaxErrorBytes {
		s = s[:carillon.MaxErrorBytes]
	}
	return strings.ToValidUTF8(s, "")
}

// call runs a handler. A panic is an error with its stack; so is a handler that ends its goroutine, which is why the outcome
// goes to done from a deferred call.
func call(ctx context.Context, handle handler, run carillon.Run, done func(error)) {
	err := errEnded
	defer func() {
		if p := recover(); p != nil {
			err = &panicked{value: p, stack: debug.Stack()}
		}
		done(err)
	}()
	err = handle(ctx, run)
}

// errEnded is the outcome of a handler that did not return: it called runtime.Goexit.
var errEnded = errors.New("the handler ended its goroutine")

// handler is a function given to [Handle], with its input decoded inside.
type handler func(ctx context.Context, run carillon.Run) error

// panicked is a panic of a handler.
type panicked struct {
	value any
	stack []byte
}

// Error is the value and where it happened, for the history of the run.
func (p *panicked) Error() string { return fmt.Sprintf("panic: %v\n\n%s", p.value, p.stack) }
