package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/carillonhq/carillon"
)

// Broker measures runs that go to a message broker: n one-shots, all due at the same instant or each at a
// time of its own. The broker must be in the node's file.
type Broker struct {
	Target carillon.Target
	Jobs   int     // default 20,000
	Rate   float64 // runs a second; 0 = all at one instant
	// Held is how many messages the broker has. It is asked before the runs and after them.
	Held func(ctx context.Context) (int64, error)
	// Lead is the time between the last put and the first run, at least; default 1 s.
	Lead time.Duration
}

// Due is when the i-th job is due, if the first one is at start.
func (k Broker) Due(start time.Time, i int) time.Time {
	if k.Rate <= 0 {
		return start
	}
	return start.Add(time.Duration(float64(i) / k.Rate * float64(time.Second)))
}

// Run measures. Lateness is from when a run was due to when the node had the broker's acknowledgement, and
// the rate counts until the last of these. The ledger says whether each run has succeeded once, by its first
// attempt, and whether the broker has got as many messages as there were runs.
func (k Broker) Run(ctx context.Context, b *Bench) (Result, error) {
	if k.Jobs <= 0 {
		k.Jobs = 20_000
	}
	if k.Lead <= 0 {
		k.Lead = time.Second
	}
	l := newLedger(newPrefix(), k.Jobs)
	before, err := k.Held(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("ask the broker: %w", err)
	}
	start := time.Now().Add(loadTime(k.Jobs) + k.Lead).Truncate(time.Millisecond)
	data := payload(defaultPayload)
	err = b.preload(ctx, k.Jobs, defaultPayload, func(i int) carillon.Job {
		at := k.Due(start, i)
		l.plan(i, at)
		return carillon.Job{Namespace: b.cfg.Namespace, Name: l.name(i), Due: carillon.At(at), Target: k.Target,
			Data: data}
	}, l.ack)
	if err != nil {
		return Result{}, err
	}
	r, err := k.measure(ctx, b, l, start, before+int64(k.Jobs))
	if err != nil {
		return r, err
	}
	after, err := k.Held(ctx)
	if err != nil {
		return r, fmt.Errorf("ask the broker: %w", err)
	}
	if got := after - before; got > int64(k.Jobs) {
		r.Ledger.Unknown += got - int64(k.Jobs)
	} else {
		r.Ledger.Missing += int64(k.Jobs) - got
	}
	return r, nil
}

// measure measures until all runs have ended; most is how many messages the broker is to have then.
func (k Broker) measure(ctx context.Context, b *Bench, l *ledger, start time.Time,
	most int64) (Result, error) {
	n := int64(k.Jobs)
	r := Result{Bench: "broker_herd", Operations: n, Parameters: fmt.Sprintf("%d runs at one instant", n)}
	if k.Rate > 0 {
		r.Bench = "broker_steady"
		r.Parameters = fmt.Sprintf("%d runs, %.0f a second", n, k.Rate)
	}
	if time.Until(start) < 0 {
		r.Notes = append(r.Notes, "loading took longer than planned: the first jobs were due before all were put")
	}
	if err := pause(ctx, time.Until(start.Add(-50*time.Millisecond))); err != nil {
		return r, err
	}
	w, err := b.begin(ctx, r.Bench)
	if err != nil {
		return r, err
	}
	defer w.close()
	if err := k.arrive(ctx, most); err != nil {
		return r, err
	}
	if err := k.wait(ctx, b, l); err != nil {
		return r, err
	}
	if err := w.end(&r); err != nil {
		return r, err
	}
	err = k.account(ctx, b, l, start, &r)
	return r, err
}

// arrive waits until the broker has as many messages, or no more come. It asks the broker and not the node:
// to say whether jobs are left, the node passes by all those that have ended, which took up to a fifth of its
// time.
func (k Broker) arrive(ctx context.Context, most int64) error {
	const quiet = 2 * time.Second
	last, since := int64(-1), time.Now()
	for {
		n, err := k.Held(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("ask the broker: %w", err)
		case n >= most:
			return nil
		case n > last:
			last, since = n, time.Now()
		case time.Since(since) > quiet:
			return nil // the ledger says what is missing
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("the broker has %d messages, not %d: %w", n, most, err)
		}
	}
}

// wait waits until all jobs have ended: those that have are gone. A run that failed is a matter of the
// ledger, a job that does not end is not.
func (k Broker) wait(ctx context.Context, b *Bench, l *ledger) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute+time.Duration(k.Jobs)*2*time.Millisecond)
	defer cancel()
	for !b.empty(ctx, l.prefix) {
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("some of %d jobs have not ended: %w", k.Jobs, err)
		}
	}
	return nil
}

// account enters into the ledger what the history says of the runs, and gives the result what follows.
func (k Broker) account(ctx context.Context, b *Bench, l *ledger, start time.Time, r *Result) error {
	late, last, again := newHistogram(), start, int64(0)
	q := carillon.RunQuery{Namespace: b.cfg.Namespace, Prefix: l.prefix, PageSize: carillon.MaxBatch,
		Statuses: []carillon.RunStatus{carillon.RunSucceeded}}
	for {
		page, err := b.conn(0).ListRuns(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Runs {
			run := &page.Runs[i]
			if d, ok := l.deliver(run.Job, run.Finished); ok {
				late.record(d)
			}
			if run.Attempt > 1 {
				again++
			}
			if run.Finished.After(last) {
				last = run.Finished
			}
		}
		if q.PageToken = page.NextPageToken; q.PageToken == "" {
			break
		}
	}
	r.took(last.Sub(start))
	r.Lateness = late.quantiles()
	r.Ledger = l.verdict()
	r.Ledger.Doubled += again
	return nil
}

// Meter measures the CPU time of processes.
type Meter struct{ meter *meter }

// NewMeter measures from now on.
func NewMeter(pids ...int) *Meter { return &Meter{startMeter(pids...)} }

// Each is the CPU time used since then for each of n operations, in microseconds.
func (m *Meter) Each(n int) float64 { return m.meter.each(int64(n)) }

// Delays collects durations. Its methods may be called from any goroutine.
type Delays struct{ h *histogram }

// NewDelays has none.
func NewDelays() *Delays { return &Delays{newHistogram()} }

// Add adds one.
func (d *Delays) Add(one time.Duration) { d.h.record(one) }

// Quantiles are those of what was added; nil if that is nothing.
func (d *Delays) Quantiles() *Quantiles { return d.h.quantiles() }
