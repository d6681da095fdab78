package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon"
)

// Live measures the whole life of jobs that come at a steady rate and are due at once: put, handed out,
// answered, in the history.
type Live struct {
	Rate    float64       // jobs a second, open-loop; default 116
	For     time.Duration // default 60 s
	Callers int           // calls at once; default 128
	Workers int           // sessions; default 4
	Credits int           // runs in flight for each; default 10,000
	Payload int           // bytes; default 64
}

func (l Live) withDefaults() Live {
	if l.Rate <= 0 {
		l.Rate = 116
	}
	if l.For <= 0 {
		l.For = time.Minute
	}
	if l.Callers <= 0 {
		l.Callers = 128
	}
	if l.Payload <= 0 {
		l.Payload = defaultPayload
	}
	return l
}

// Run measures. A job is due when its put begins, so its lateness holds everything. How long a put took
// counts from when it should have begun.
func (l Live) Run(ctx context.Context, b *Bench) (Result, error) {
	l = l.withDefaults()
	prefix := newPrefix()
	n := max(1, int(l.Rate*l.For.Seconds()))
	ledger := newLedger(prefix, n)
	work, err := b.consume(ctx, prefix, workerOptions{Workers: l.Workers, Credits: l.Credits}.withDefaults(),
		ledger)
	if err != nil {
		return Result{}, err
	}
	defer work.close() // closed below too; this is for early returns
	data := payload(l.Payload)
	job := func(i int) carillon.Job {
		due := time.Now()
		ledger.plan(i, due)
		return carillon.Job{Namespace: b.cfg.Namespace, Name: ledger.name(i), Due: carillon.At(due),
			Data:   data,
			Target: carillon.WorkerQueue(prefix)}
	}
	r := Result{Bench: "live", Operations: int64(n), Parameters: fmt.Sprintf("%.0f jobs/s for %s", l.Rate,
		l.For)}
	w, err := b.begin(ctx, r.Bench)
	if err != nil {
		return r, err
	}
	defer w.close()
	start := time.Now()
	took, err := b.put(ctx, "putting jobs", load{jobs: n, mode: Unary, callers: l.Callers, rate: l.Rate,
		job:   job,
		acked: ledger.ack})
	if err != nil {
		return r, err
	}
	until(ctx, time.Minute, func() bool { return work.acks.Load() >= int64(n) })
	r.took(time.Since(start))
	err = errors.Join(w.end(&r), work.close())
	r.Latency, r.Lateness, r.Ledger = took.quantiles(), work.late.quantiles(), ledger.verdict()
	r.Ledger.Stale = work.stale.Load()
	if err != nil {
		return r, err
	}
	err = b.mustBeGone(ctx, prefix, &r)
	return r, err
}
