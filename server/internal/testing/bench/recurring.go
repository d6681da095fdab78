package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/carillonhq/carillon"
)

// Recurring measures n jobs that each fire every so often, every tick durably advanced.
type Recurring struct {
	Jobs    int           // default 50,000
	Every   time.Duration // default 1 s
	For     time.Duration // measured; default 20 s
	WarmUp  time.Duration // before that; default 3 s
	Workers int           // sessions; default 4
	Credits int           // runs in flight for each; default 10,000
	AtOnce  bool          // all fire at the same instants; default spread evenly over Every
}

func (r Recurring) withDefaults() Recurring {
	if r.Jobs <= 0 {
		r.Jobs = 50_000
	}
	if r.Every <= 0 {
		r.Every = time.Second
	}
	if r.For <= 0 {
		r.For = 20 * time.Second
	}
	if r.WarmUp <= 0 {
		r.WarmUp = 3 * time.Second
	}
	return r
}

// Run measures.
func (r Recurring) Run(ctx context.Context, b *Bench) (Result, error) {
	r = r.withDefaults()
	prefix := newPrefix()
	start := time.Now().Add(2*loadTime(r.Jobs) + 2*time.Second).Truncate(time.Millisecond)
	ticks := newTicks(prefix, r.Jobs, r.Every, start)
	ticks.atOnce = r.AtOnce
	from := start.Add(r.Every + r.WarmUp)
	ticks.from.Store(from.UnixNano())
	ticks.to.Store(from.Add(r.For).UnixNano())
	work, err := b.consume(ctx, prefix, workerOptions{Workers: r.Workers, Credits: r.Credits}.withDefaults(),
		ticks)
	if err != nil {
		return Result{}, err
	}
	defer work.close() // closed below too; this is for early returns
	err = b.preload(ctx, r.Jobs, 0, func(i int) carillon.Job {
		return carillon.Job{Namespace: b.cfg.Namespace, Name: ticks.name(i), Schedule: "@every " + r.Every.String(),
			Due: carillon.At(ticks.first(i)), Target: carillon.WorkerQueue(prefix), History: carillon.History{Runs: 1}}
	}, func(int) {})
	if err != nil {
		return Result{}, err
	}
	return r.measure(ctx, b, work, ticks, from)
}

func (r Recurring) measure(ctx context.Context, b *Bench, work *consumers, t *ticks,
	from time.Time) (Result, error) {
	res := Result{Bench: "recurring", Parameters: fmt.Sprintf("%d jobs, every %s, for %s",
		r.Jobs, r.Every, r.For)}
	if r.AtOnce {
		res.Parameters += ", all at once"
	}
	if err := pause(ctx, time.Until(from)); err != nil {
		return res, err
	}
	w, err := b.begin(ctx, res.Bench)
	if err != nil {
		return res, err
	}
	defer w.close()
	stop := b.watch("ticks", int64(float64(r.Jobs)*r.For.Seconds()/r.Every.Seconds()), t.counted.Load)
	end := from.Add(r.For)
	err = pause(ctx, time.Until(end))
	stop()
	if err != nil {
		return res, err
	}
	res.Operations = t.counted.Load()
	res.took(r.For)
	if err := w.end(&res); err != nil {
		return res, err
	}
	until(ctx, 10*time.Second, func() bool { return t.outstanding(end) == 0 })
	res.Ledger = t.verdict(end)
	res.Ledger.Stale = work.stale.Load()
	res.Lateness = work.late.quantiles()
	b.clean(ctx, t.prefix, &res)
	err = work.close()
	return res, err
}
