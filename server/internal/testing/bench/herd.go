package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon"
)

// Herd measures n one-shots that are all due at the same instant: received over worker streams, answered, and
// durably finished.
type Herd struct {
	Jobs    int           // default 20,000
	Workers int           // sessions; default 4
	Credits int           // runs in flight for each; default 10,000
	Hold    time.Duration // how long a worker keeps a run before it answers
	Lead    time.Duration // between the last put and the due time, at least; default 2 s
}

// Run measures.
func (h Herd) Run(ctx context.Context, b *Bench) (Result, error) {
	if h.Jobs <= 0 {
		h.Jobs = 20_000
	}
	if h.Lead <= 0 {
		h.Lead = 2 * time.Second
	}
	o := workerOptions{h.Workers, h.Credits, h.Hold}.withDefaults()
	prefix := newPrefix()
	ledger := newLedger(prefix, h.Jobs)
	due := time.Now().Add(loadTime(h.Jobs) + h.Lead).Truncate(time.Millisecond)
	work, err := b.consume(ctx, prefix, o, ledger)
	if err != nil {
		return Result{}, err
	}
	defer work.close() // closed below too; this is for early returns
	if err := b.preloadOneShots(ctx, ledger, prefix, defaultPayload,
		func(int) time.Time { return due }); err != nil {
		return Result{}, err
	}
	return h.measure(ctx, b, work, ledger, due, o)
}

// loadTime is time enough to put n jobs on a slow machine.
func loadTime(n int) time.Duration { return time.Duration(n) * 40 * time.Microsecond }

// preloadOneShots puts the jobs of a ledger for a worker queue.
func (b *Bench) preloadOneShots(ctx context.Context, l *ledger, queue string, size int,
	due func(i int) time.Time) error {
	data := payload(size)
	return b.preload(ctx, len(l.due), size, func(i int) carillon.Job {
		at := due(i)
		l.plan(i, at)
		return carillon.Job{Namespace: b.cfg.Namespace, Name: l.name(i), Due: carillon.At(at),
			Target: carillon.WorkerQueue(queue),
			Data:   data}
	}, l.ack)
}

func (h Herd) measure(ctx context.Context, b *Bench, work *consumers, l *ledger, due time.Time,
	o workerOptions) (Result, error) {
	r := Result{Bench: "herd", Operations: int64(h.Jobs),
		Parameters: fmt.Sprintf("%d one-shots at one instant, %d workers, %d credits each, held %s", h.Jobs,
			o.Workers, o.Credits, o.Hold)}
	if time.Until(due) < 0 {
		r.Notes = append(r.Notes, "loading took longer than planned: the jobs were due before all were put")
	}
	if err := pause(ctx, time.Until(due.Add(-100*time.Millisecond))); err != nil {
		return r, err
	}
	w, err := b.begin(ctx, r.Bench)
	if err != nil {
		return r, err
	}
	defer w.close()
	stop := b.watch("runs", int64(h.Jobs), l.delivered.Load)
	finished := until(ctx, time.Minute+time.Duration(h.Jobs)*time.Millisecond+h.Hold,
		func() bool { return work.acks.Load() >= int64(h.Jobs) })
	took := time.Since(due)
	stop()
	r.took(took)
	err = w.end(&r)
	r.Span = l.span().Seconds()
	err = errors.Join(err, work.close())
	r.Lateness = work.late.quantiles()
	r.Ledger = l.verdict()
	r.Ledger.Stale = work.stale.Load()
	if !finished {
		r.Notes = append(r.Notes, fmt.Sprintf("only %d of %d results were acknowledged as durable",
			work.acks.Load(), h.Jobs))
	}
	if err != nil {
		return r, err
	}
	err = b.mustBeGone(ctx, l.prefix, &r)
	return r, err
}

// mustBeGone notes what finished one-shots have left behind, and removes it.
func (b *Bench) mustBeGone(ctx context.Context, prefix string, r *Result) error {
	page, err := b.conn(0).ListJobs(ctx,
		carillon.JobQuery{Namespace: b.cfg.Namespace, Prefix: prefix, PageSize: carillon.MaxBatch})
	if err != nil {
		return err
	}
	if n := len(page.Jobs); n > 0 {
		r.Ledger.Unknown += int64(n)
		r.Notes = append(r.Notes, fmt.Sprintf("at least %d jobs are still there", n))
		b.clean(ctx, prefix, r)
	}
	return nil
}
