package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Steady measures how late runs are when they are due at a steady rate, each at a time of its own.
type Steady struct {
	Rate    float64       // runs a second; default 10,000
	For     time.Duration // default 10 s
	Workers int           // sessions; default 4
	Credits int           // runs in flight for each; default 10,000
	Payload int           // bytes; default 64
}

// Run measures.
func (s Steady) Run(ctx context.Context, b *Bench) (Result, error) {
	if s.Rate <= 0 {
		s.Rate = 10_000
	}
	if s.For <= 0 {
		s.For = 10 * time.Second
	}
	if s.Payload <= 0 {
		s.Payload = defaultPayload
	}
	n := max(1, int(s.Rate*s.For.Seconds()))
	prefix := newPrefix()
	ledger := newLedger(prefix, n)
	start := time.Now().Add(loadTime(n) + 2*time.Second)
	watch := newStallWatch(ledger, b.cfg.Node.HTTP, start, s.For+time.Second)
	work, err := b.consume(ctx, prefix, workerOptions{Workers: s.Workers, Credits: s.Credits}.withDefaults(),
		watch)
	if err != nil {
		return Result{}, err
	}
	defer work.close() // closed below too; this is for early returns
	due := func(i int) time.Time { return start.Add(time.Duration(float64(i) / s.Rate * float64(time.Second))) }
	if err := b.preloadOneShots(ctx, ledger, prefix, s.Payload, due); err != nil {
		return Result{}, err
	}
	return s.measure(ctx, b, work, ledger, watch)
}

func (s Steady) measure(ctx context.Context, b *Bench, work *consumers, l *ledger,
	watch *stallWatch) (Result, error) {
	n := int64(len(l.due))
	r := Result{Bench: "steady", Operations: n, Parameters: fmt.Sprintf("%.0f runs/s for %s", s.Rate, s.For)}
	start := watch.start
	if time.Until(start) < 0 {
		r.Notes = append(r.Notes, "loading took longer than planned: the first jobs were due before all were put")
	}
	if err := pause(ctx, time.Until(start)); err != nil {
		return r, err
	}
	w, err := b.begin(ctx, r.Bench)
	if err != nil {
		return r, err
	}
	defer w.close()
	if err := watch.begin(ctx); err != nil {
		return r, err
	}
	defer watch.close()
	stop := b.watch("runs", n, l.delivered.Load)
	until(ctx, s.For+time.Minute, func() bool { return work.acks.Load() >= n })
	stop()
	r.took(time.Since(start))
	err = w.end(&r)
	r.Span = l.span().Seconds()
	stalls, noStalls := watch.end(ctx, work.late)
	r.Stalls = stalls
	err = errors.Join(err, noStalls, work.close())
	r.Lateness = work.late.quantiles()
	r.Ledger = l.verdict()
	r.Ledger.Stale = work.stale.Load()
	if err != nil {
		return r, err
	}
	err = b.mustBeGone(ctx, l.prefix, &r)
	return r, err
}
