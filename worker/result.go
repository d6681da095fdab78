package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
)

// Causes of the end of a handler's context, by [context.Cause].
var (
	ErrCancelled = errors.New("worker: the run was cancelled")
	ErrStale     = errors.New("worker: the attempt is not in force any more")
	ErrLeaving   = errors.New("worker: the worker is leaving")
)

// Discard marks err as a failure that must not be retried: the run is exhausted, whatever its failure policy.
// Discard of nil is nil.
func Discard(err error) error {
	if err == nil {
		return nil
	}
	return &discarded{err}
}

type discarded struct{ error }

// Unwrap returns the cause.
func (d *discarded) Unwrap() error { return d.error }

// RetryAfter marks err as a failure that is retried no earlier than after d. The failure policy may make it
// later, or allow no further attempt. err may be nil.
func RetryAfter(d time.Duration, err error) error { return &delayed{max(0, d), err} }

type delayed struct {
	after time.Duration
	err   error
}

// Error implements error.
func (d *delayed) Error() string {
	if d.err == nil {
		return "to be tried again after " + schedule.Brief(d.after)
	}
	return d.err.Error()
}

// Unwrap returns the cause.
func (d *delayed) Unwrap() error { return d.err }

// Reschedule says that the run is neither done nor failed: the same run is attempted again at t, with fresh
// retries. A past t means at once.
func Reschedule(t time.Time) error { return &rescheduled{t} }

type rescheduled struct{ at time.Time }

// Error implements error.
func (r *rescheduled) Error() string {
	if !carillon.Storable(r.at) {
		return fmt.Sprintf("worker.Reschedule: %v is no time that a run can have", r.at)
	}
	return "to be attempted again at " + r.at.UTC().Format(time.RFC3339Nano)
}

// resultOf returns the result that a handler's return values mean.
func resultOf(run *carillon.Run, result []byte, err error) carillon.Result {
	r := carillon.Result{Token: run.Token, RunID: run.ID, Response: result}
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
	if off, ok := errors.AsType[*putOff](err); ok && !r.Permanent {
		r.Outcome, r.At, r.Response = carillon.OutcomeReschedule, off.at, nil
		return r
	}
	if d, ok := errors.AsType[*delayed](err); ok {
		r.RetryAfter = d.after
	}
	return r
}

// shorten cuts a message to the length that a run keeps, at a character boundary.
func shorten(s string) string {
	if len(s) > carillon.MaxErrorBytes {
		s = s[:carillon.MaxErrorBytes]
	}
	return strings.ToValidUTF8(s, "")
}

// call calls a handler. A panic becomes an error with its stack. done is called from a deferred function, so
// that a handler that ends its goroutine has an outcome, too.
func call(ctx context.Context, handle handler, run carillon.Run, done func([]byte, error)) {
	var result []byte
	err := errEnded
	defer func() {
		if p := recover(); p != nil {
			err = &panicked{value: p, stack: debug.Stack()}
		}
		done(result, err)
	}()
	result, err = handle(ctx, run)
}

// errEnded is the outcome of a handler that did not return: it called runtime.Goexit.
var errEnded = errors.New("the handler ended its goroutine")

// handler is a function given to [Handle] or [HandleResult], with the decoding of its input and the encoding
// of its result.
type handler func(ctx context.Context, run carillon.Run) (result []byte, err error)

// panicked is a panic of a handler.
type panicked struct {
	value any
	stack []byte
}

// Error returns the value and the stack, for the history of the run.
func (p *panicked) Error() string { return fmt.Sprintf("panic: %v\n\n%s", p.value, p.stack) }
