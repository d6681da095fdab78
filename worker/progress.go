package worker

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
)

// progressEvery is how often the progress of one attempt is sent.
const progressEvery = time.Second

// handling is what a handler's context knows of its attempt, under the key handlingKey.
type handling struct {
	inFlight *inFlight
	attempt  *attempt
}

type handlingKey struct{}

// ErrNoRun is the error of [Progress] outside of a handler.
var ErrNoRun = errors.New("worker: this is not the context of a handler")

// Progress reports how far the handler is: percent is 0 to 100, message at most [carillon.MaxProgressMessage]
// bytes, for people. ctx is the handler's, or derived from it. Progress may be called any number of times and
// never waits: once a second the server gets the latest report. A report is lost if the worker is not
// connected for long, or if the attempt ends before it was sent. The error is about ctx or the values.
func Progress(ctx context.Context, percent float64, message string) error {
	h, ok := ctx.Value(handlingKey{}).(handling)
	if !ok {
		return ErrNoRun
	}
	p := carillon.Progress{Percent: percent, Message: strings.ToValidUTF8(message, "\uFFFD")}
	if err := p.Validate(); err != nil {
		return err
	}
	h.inFlight.setProgress(h.attempt, p)
	return nil
}

// setProgress keeps an attempt's progress until it may be sent.
func (d *inFlight) setProgress(a *attempt, p carillon.Progress) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a.progress == nil {
		d.progressing = append(d.progressing, a)
		signal(d.wake)
	}
	a.progress = &p
}

// takeProgress adds the progress that may be sent now, of attempts that still go on, and returns when to call
// it again (zero: only when there is more).
func (d *inFlight) takeProgress(req *carillon.WorkRequest, now time.Time) (next time.Time) {
	later, bytes := d.progressing[:0], 0
	for _, a := range d.progressing {
		if a.phase == ended || d.attempts[a.run.Token] != a {
			continue
		}
		if now.Before(a.progressAfter) {
			later = append(later, a)
			next = earlier(next, a.progressAfter)
			continue
		}
		if len(req.Results) >= maxMessageItems || bytes > maxMessageBytes {
			later = append(later, a)
			signal(d.wake)
			continue
		}
		req.Results = append(req.Results, carillon.Result{
			Token: a.run.Token, RunID: a.run.ID, Outcome: carillon.OutcomeProgress, Progress: *a.progress})
		bytes += itemBytes + len(a.progress.Message)
		a.progress, a.progressAfter = nil, now.Add(progressEvery)
	}
	clear(d.progressing[len(later):])
	d.progressing = later
	return next
}
