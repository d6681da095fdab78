package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// daprSizes say how much work there is over Dapr's protocol.
type daprSizes struct {
	put   int           // P1: jobs
	herd  int           // P3: jobs at one instant
	ticks []int         // P5: jobs every second, one after the other until one does not hold
	hold  time.Duration // P5: for how long
	far   int           // P7, P8: jobs that lie in the store
}

// daprCallers is how many put jobs at a time (P1).
const daprCallers = 128

// The apps of the goals.
const p1App, p3App, p5App, p7App, p8App = "p1", "p3", "p5", "p7", "p8"

// daprGoals measures the goals that can be measured over Dapr's protocol; memory first, while the server has
// done nothing else.
func (b *bout) daprGoals(ctx context.Context) error {
	d, n := b.subject.(*daprScheduler), b.dapr
	for _, goal := range []func(context.Context, *daprScheduler, daprSizes) error{b.p7, b.p8, b.p1, b.p3, b.p5} {
		if err := goal(ctx, d, n); err != nil {
			return err
		}
	}
	return nil
}

// p1 puts jobs that are due in a year. The first few, which open the connections, are not measured.
func (b *bout) p1(ctx context.Context, d *daprScheduler, n daprSizes) error {
	if _, err := b.putFar(ctx, p1App, daprCallers); err != nil {
		return err
	}
	m := b.meter()
	took, err := b.putFar(ctx, p1App, n.put)
	if err != nil {
		return fmt.Errorf("P1: %w", err)
	}
	r := b.row("P1 ScheduleJob", n.put)
	m.stop(&r)
	r.Latency = quantilesOf(took)
	r.Ledger, err = b.stored(ctx, p1App, n.put+daprCallers)
	b.report(r)
	return errors.Join(err, d.deleteAll(ctx, p1App))
}

// putFar puts n jobs that are due in a year.
func (b *bout) putFar(ctx context.Context, app string, n int) ([]time.Duration, error) {
	due, l := time.Now().AddDate(1, 0, 0), b.open(n)
	return b.each(ctx, n, daprCallers, 1, func(ctx context.Context, i, _ int) error {
		return b.subject.put(ctx, app, b.job(l, i, due))
	})
}

// stored holds how many jobs the server has against how many there should be.
func (b *bout) stored(ctx context.Context, app string, n int) (verdict, error) {
	stored, err := b.unfinished(ctx, app)
	return verdict{Expected: int64(n), Done: int64(stored), Missing: int64(max(0, n-stored)),
		Left: int64(max(0, stored-n))}, err
}

// p3 has jobs due at one instant: CPU time and lateness count from there.
func (b *bout) p3(ctx context.Context, d *daprScheduler, n daprSizes) error {
	stop, err := d.work(ctx, p3App, func(n int) { b.ledger.Load().enter(n) })
	if err != nil {
		return err
	}
	l := b.open(n.herd)
	due := time.Now().Add(time.Duration(n.herd)*time.Second/slowest + 2*time.Second)
	_, err = b.each(ctx, n.herd, daprCallers, 1, func(ctx context.Context, i, _ int) error {
		return b.subject.put(ctx, p3App, b.job(l, i, due))
	})
	if err == nil {
		err = pause(ctx, time.Until(due))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("P3: %w", err), stop())
	}
	m := b.meter()
	left, err := b.finishOf(ctx, p3App, l)
	r := b.row("P3 at one instant", n.herd)
	m.start = due
	m.stop(&r)
	r.Lateness, r.Ledger = l.lateness(), l.verdict(left)
	if r.Lateness != nil {
		r.Note = fmt.Sprintf("the last after %.0f ms", r.Lateness.Max)
	}
	b.report(r)
	return errors.Join(err, stop())
}

// p7 looks at the memory of a server that holds many jobs.
func (b *bout) p7(ctx context.Context, d *daprScheduler, n daprSizes) error {
	if _, err := b.putFar(ctx, p7App, n.far); err != nil {
		return fmt.Errorf("P7: %w", err)
	}
	r := b.row(fmt.Sprintf("P7 %d jobs", n.far), n.far)
	r.Note = fmt.Sprintf("%d MiB resident", d.resident()>>20)
	var err error
	r.Ledger, err = b.stored(ctx, p7App, n.far)
	b.report(r)
	return err
}

// p8 kills the server while it holds the jobs of P7 and one that is due meanwhile, and starts it again: how
// long it takes from the start to the run, and how much memory it has then.
func (b *bout) p8(ctx context.Context, d *daprScheduler, n daprSizes) error {
	const lead = time.Second
	l := b.open(1)
	if err := d.put(ctx, p8App, b.job(l, 0, time.Now().Add(lead))); err != nil {
		return fmt.Errorf("P8: %w", err)
	}
	if err := errors.Join(d.kill(), pause(ctx, lead)); err != nil {
		return err
	}
	start := time.Now()
	if err := d.again(ctx); err != nil {
		return err
	}
	m := b.meter()
	stop, err := d.work(ctx, p8App, l.enter)
	if err != nil {
		return err
	}
	left, err := b.finishOf(ctx, p8App, l)
	r := b.row(fmt.Sprintf("P8 kill -9, %d jobs", n.far), 1)
	m.stop(&r)
	r.Rate = 0
	ran := time.Unix(0, l.came[0].Load())
	r.Ledger = l.verdict(left)
	if r.Ledger.Missing == 0 {
		r.Note = fmt.Sprintf("first run after %d ms, %d MiB resident", ran.Sub(start).Milliseconds(),
			d.resident()>>20)
	}
	b.report(r)
	return errors.Join(err, stop(), d.deleteAll(ctx, p7App))
}
