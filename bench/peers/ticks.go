package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	daprpb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
)

// ticks is a ledger of jobs that run every second: the k-th run of a job belongs to its k-th time, so a run
// too many makes the next ones early.
type ticks struct {
	first int         // number of the first job
	due   []time.Time // when each runs first
	each  int         // runs of each that are counted
	runs  []atomic.Int32
	late  []atomic.Int64 // ns, by job and run
	early atomic.Int64
	done  atomic.Int64
	all   chan struct{} // closed when all have come
}

func newTicks(first, n, each int, start time.Time) *ticks {
	t := &ticks{first: first, due: make([]time.Time, n), each: each, runs: make([]atomic.Int32, n),
		late: make([]atomic.Int64, n*each), all: make(chan struct{})}
	for i := range t.due {
		t.due[i] = start.Add(time.Duration(i) * time.Second / time.Duration(n)) // spread evenly
	}
	return t
}

// enter enters a run.
func (t *ticks) enter(n int) {
	now := time.Now()
	i := n - t.first
	if i < 0 || i >= len(t.due) {
		return
	}
	k := int(t.runs[i].Add(1)) - 1
	if k >= t.each {
		return
	}
	late := now.Sub(t.due[i].Add(time.Duration(k) * time.Second))
	if late < 0 {
		t.early.Add(1)
	}
	t.late[i*t.each+k].Store(int64(late))
	if t.done.Add(1) == int64(len(t.late)) {
		close(t.all)
	}
}

func (t *ticks) verdict() verdict {
	done := t.done.Load()
	return verdict{Expected: int64(len(t.late)), Done: done, Missing: int64(len(t.late)) - done,
		Early: t.early.Load()}
}

func (t *ticks) lateness() *quantiles {
	var late []time.Duration
	for i := range t.late {
		if i%t.each < int(t.runs[i/t.each].Load()) {
			late = append(late, time.Duration(t.late[i].Load()))
		}
	}
	return quantilesOf(late)
}

// p5 has more and more jobs run every second, each durably advanced, until the server falls behind by more
// than a second.
func (b *bout) p5(ctx context.Context, d *daprScheduler, n daprSizes) error {
	for _, many := range n.ticks {
		holds, err := b.tick(ctx, d, many, n.hold)
		if err != nil || !holds {
			return err
		}
	}
	return nil
}

// tick has n jobs run every second.
func (b *bout) tick(ctx context.Context, d *daprScheduler, n int,
	hold time.Duration) (holds bool, err error) {
	app := fmt.Sprintf("%s-%d", p5App, n)
	lead := time.Duration(n)*time.Second/slowest + 2*time.Second
	t := newTicks(b.next, n, int(hold/time.Second), time.Now().Add(lead))
	b.next += n
	stop, err := d.work(ctx, app, t.enter)
	if err != nil {
		return false, err
	}
	_, err = b.each(ctx, n, daprCallers, 1, func(ctx context.Context, i, _ int) error {
		return d.schedule(ctx, app, job{n: t.first + i, due: t.due[i]}, &daprpb.Job{Schedule: new("@every 1s")})
	})
	if err == nil {
		err = pause(ctx, time.Until(t.due[0]))
	}
	if err != nil {
		return false, errors.Join(fmt.Errorf("P5: %w", err), stop())
	}
	m := b.meter()
	over := time.NewTimer(hold + b.limit)
	defer over.Stop()
	select {
	case <-t.all:
	case <-over.C:
	case <-ctx.Done():
	}
	r := b.row(fmt.Sprintf("P5 %d jobs every second", n), n*t.each)
	m.stop(&r)
	r.Lateness, r.Ledger = t.lateness(), t.verdict()
	b.report(r)
	holds = r.Ledger.Missing == 0 && r.Lateness.P99 < 1000
	return holds, errors.Join(ctx.Err(), d.deleteAll(ctx, app), stop())
}
