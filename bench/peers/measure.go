package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// sizes say how much work there is.
type sizes struct {
	put, bulk, now, herd int // jobs
	rate                 int // jobs a second of steady
	steady               time.Duration
	lead                 time.Duration // of steady: from the put to the due time
	limit                time.Duration // how long a measure waits for what is missing
	dapr                 daprSizes
}

// leadTime is that of steady, unless a flag sets it.
const leadTime = 2 * time.Second

var allSizes = map[string]sizes{
	"tiny": {put: 200, bulk: 512, now: 200, herd: 200, rate: 100, steady: time.Second, lead: leadTime,
		limit: 30 * time.Second, dapr: daprSizes{put: 300, herd: 200, ticks: []int{100},
			hold: 2 * time.Second, far: 300}},
	"small": {put: 10_000, bulk: 20_480, now: 5_000, herd: 5_000, rate: 500, steady: 5 * time.Second,
		lead: leadTime, limit: 30 * time.Second, dapr: daprSizes{put: 20_000, herd: 20_000,
			ticks: []int{2_000, 5_000, 10_000}, hold: 10 * time.Second, far: 100_000}},
	"full": {put: 50_000, bulk: 204_800, now: 50_000, herd: 50_000, rate: 1_000, steady: 20 * time.Second,
		lead: leadTime, limit: 3 * time.Minute, dapr: daprSizes{put: 60_000, herd: 20_000,
			ticks: []int{5_000, 10_000, 20_000, 30_000}, hold: 15 * time.Second, far: 100_000}},
}

const (
	callers     = 64    // that put single jobs at a time
	bulkCallers = 8     // that put many
	slowest     = 2_500 // jobs a second that any peer can be loaded with
	peek        = 10 * time.Millisecond
)

// The queues: jobs that stay far in the future, and those that are worked.
const (
	warmQueue, farQueue, bulkQueue, workQueue = "warm", "far", "bulk", "work"
)

// bout is a contestant at work.
type bout struct {
	contestant
	subject
	sizes
	version string
	next    int                    // number of the next job
	ledger  atomic.Pointer[ledger] // of the present measure
	report  func(row)
}

// run does all measures. What opens the connections is not measured.
func (b *bout) run(ctx context.Context) error {
	year := time.Now().AddDate(1, 0, 0)
	if _, err := b.singles(ctx, warmQueue, b.open(callers), func(int) time.Time { return year }); err != nil {
		return err
	}
	if err := errors.Join(b.far(ctx, "put", farQueue, b.sizes.put),
		b.far(ctx, "bulk", bulkQueue, b.bulk)); err != nil {
		return err
	}
	stop, err := b.work(ctx, workQueue, func(n int) { b.ledger.Load().enter(n) })
	if err == nil {
		err = errors.Join(b.worked(ctx), stop())
	}
	return err
}

// worked does the measures that need a worker; the first run, not measured, says that everything is there.
func (b *bout) worked(ctx context.Context) error {
	warm := b.open(1)
	if err := b.subject.put(ctx, workQueue, b.job(warm, 0, time.Now().Add(200*time.Millisecond))); err != nil {
		return err
	}
	if _, err := b.finish(ctx, warm); err != nil {
		return err
	}
	if v := warm.verdict(0); v.Missing > 0 {
		return errors.New("the first run did not come")
	}
	for _, measure := range []func(context.Context) error{b.nowDue, b.oneInstant, b.steadily} {
		if err := measure(ctx); err != nil {
			return err
		}
	}
	return nil
}

// open begins a ledger for the next n jobs.
func (b *bout) open(n int) *ledger {
	l := newLedger(b.next, n)
	b.next += n
	b.ledger.Store(l)
	return l
}

// job is the i-th of a ledger.
func (*bout) job(l *ledger, i int, due time.Time) job {
	j := job{n: l.first + i, due: due}
	l.plan(j)
	return j
}

// far puts jobs that are due in a year. The ledger's word is that the server has as many.
func (b *bout) far(ctx context.Context, measure, queue string, n int) error {
	due := time.Now().AddDate(1, 0, 0)
	l := b.open(n)
	put := b.singles
	if measure == "bulk" {
		put = b.batches
	}
	m := b.meter()
	took, err := put(ctx, queue, l, func(int) time.Time { return due })
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", measure, err)
	}
	r := b.row(measure, n)
	m.stop(&r)
	r.Latency = quantilesOf(took)
	stored, err := b.unfinished(ctx, queue)
	r.Ledger = verdict{Expected: int64(n), Done: int64(stored), Missing: int64(max(0, n-stored)),
		Left: int64(max(0, stored-n))}
	b.report(r)
	return err
}

// nowDue puts jobs that are due at once while a worker waits: from the first put until all are durably
// finished.
func (b *bout) nowDue(ctx context.Context) error {
	l, m := b.open(b.now), b.meter()
	if _, err := b.singles(ctx, workQueue, l, func(int) time.Time { return time.Now() }); err != nil {
		return err
	}
	left, err := b.finish(ctx, l)
	r := b.row("now", b.now)
	m.stop(&r)
	r.Lateness, r.Ledger = l.lateness(), l.verdict(left)
	b.report(r)
	return err
}

// oneInstant puts jobs that are all due at one instant, a whole second because Asynq knows no other: the rate
// counts from there until all are durably finished, the CPU time from the put.
func (b *bout) oneInstant(ctx context.Context) error {
	l, m := b.open(b.herd), b.meter()
	due := time.Now().Add(time.Duration(b.herd)*time.Second/slowest + b.ahead + time.Second).Truncate(time.Second)
	at := func(int) time.Time { return due }
	_, err := b.batches(ctx, workQueue, l, at)
	if errors.Is(err, errors.ErrUnsupported) {
		_, err = b.singles(ctx, workQueue, l, at)
	}
	if err != nil {
		return err
	}
	r := b.row("herd", b.herd)
	if over := time.Since(due); over > 0 {
		r.Note = fmt.Sprintf("the last was put %s after it was due", over.Round(time.Millisecond))
	}
	left, err := b.finish(ctx, l)
	m.start = due
	m.stop(&r)
	r.Lateness, r.Ledger = l.lateness(), l.verdict(left)
	b.report(r)
	return err
}

// steadily puts jobs at a steady rate, each at a time of its own and due some time later. A put that is slow
// makes its run late.
func (b *bout) steadily(ctx context.Context) error {
	n := int(b.steady.Seconds() * float64(b.rate))
	l, m := b.open(n), b.meter()
	turn := func(i int) time.Time { return m.start.Add(time.Duration(i) * time.Second / time.Duration(b.rate)) }
	_, err := b.each(ctx, n, callers, 1, func(ctx context.Context, i, _ int) error {
		if err := pause(ctx, time.Until(turn(i))); err != nil {
			return err
		}
		return b.subject.put(ctx, workQueue, b.job(l, i, turn(i).Add(b.lead)))
	})
	if err != nil {
		return err
	}
	left, err := b.finish(ctx, l)
	r := b.row(fmt.Sprintf("steady %d/s", b.rate), n)
	m.stop(&r)
	r.Rate = 0 // it is given
	r.Lateness, r.Ledger = l.lateness(), l.verdict(left)
	b.report(r)
	return err
}

// finish waits until all jobs of a ledger have run and the server has none left, and returns how many it has.
func (b *bout) finish(ctx context.Context, l *ledger) (left int, err error) {
	return b.finishOf(ctx, workQueue, l)
}

// finishOf is finish for another queue.
func (b *bout) finishOf(ctx context.Context, queue string, l *ledger) (left int, err error) {
	over := time.NewTimer(time.Duration(len(l.due))*time.Second/slowest + b.ahead + b.limit)
	defer over.Stop()
	select {
	case <-l.all:
	case <-over.C:
		return b.unfinished(ctx, queue)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	for {
		if left, err = b.unfinished(ctx, queue); err != nil || left == 0 {
			return left, err
		}
		select {
		case <-over.C:
			return left, nil
		default:
		}
		if err := pause(ctx, peek); err != nil {
			return left, err
		}
	}
}

// singles puts all jobs of a ledger, each by a call of its own.
func (b *bout) singles(ctx context.Context, queue string, l *ledger,
	due func(i int) time.Time) ([]time.Duration, error) {
	return b.each(ctx, len(l.due), callers, 1, func(ctx context.Context, i, _ int) error {
		return b.subject.put(ctx, queue, b.job(l, i, due(i)))
	})
}

// batches puts all jobs of a ledger, many to a call.
func (b *bout) batches(ctx context.Context, queue string, l *ledger,
	due func(i int) time.Time) ([]time.Duration, error) {
	return b.each(ctx, len(l.due), bulkCallers, max(1, b.batch), func(ctx context.Context, from, to int) error {
		jobs := make([]job, 0, to-from)
		for i := from; i < to; i++ {
			jobs = append(jobs, b.job(l, i, due(i)))
		}
		return b.putMany(ctx, queue, jobs)
	})
}

// each divides n jobs among callers, some to a call, in order, and returns how long the calls took.
func (*bout) each(ctx context.Context, n, callers, some int,
	call func(ctx context.Context, from, to int) error) ([]time.Duration, error) {
	var next atomic.Int64
	took := make([]time.Duration, (n+some-1)/some)
	group, ctx := errgroup.WithContext(ctx)
	for range callers {
		group.Go(func() error {
			for {
				from := int(next.Add(int64(some))) - some
				if from >= n {
					return nil
				}
				start := time.Now()
				if err := call(ctx, from, min(from+some, n)); err != nil {
					return err
				}
				took[from/some] = time.Since(start)
			}
		})
	}
	return took, group.Wait()
}

// row begins a result.
func (b *bout) row(measure string, n int) row {
	return row{Peer: b.peer, Version: b.version, Settings: b.settings, Durable: b.durable,
		Measure: measure, Operations: n}
}

// meter measures time and the servers' CPU time.
type meter struct {
	of    subject
	start time.Time
	used  time.Duration
}

func (b *bout) meter() *meter { return &meter{of: b.subject, start: time.Now(), used: b.cpu()} }

// stop writes what was measured into a result.
func (m *meter) stop(r *row) {
	r.Seconds = time.Since(m.start).Seconds()
	r.Rate = float64(r.Operations) / r.Seconds
	r.CPU = float64((m.of.cpu() - m.used).Microseconds()) / float64(r.Operations)
}

// pause waits, if there is anything to wait for.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
