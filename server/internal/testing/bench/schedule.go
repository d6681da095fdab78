package bench

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/carillonhq/carillon"
)

// Schedule measures how fast jobs are put: durable before they are acknowledged, due far in the future.
type Schedule struct {
	Jobs    int     // default 100,000
	Mode    Mode    // default unary
	Callers int     // calls at once; default 128 for unary, 8 for batch, 4 for stream
	Batch   int     // jobs to a call or message; default 256
	Payload int     // bytes; default 64
	Rate    float64 // jobs a second, open-loop; 0 = as fast as it goes
}

func (s Schedule) withDefaults() Schedule {
	if s.Jobs <= 0 {
		s.Jobs = 100_000
	}
	if s.Mode == "" {
		s.Mode = Unary
	}
	if s.Callers <= 0 {
		s.Callers = map[Mode]int{Unary: 128, Batch: 8, Stream: 4}[s.Mode]
	}
	if s.Batch <= 0 {
		s.Batch = 256
	}
	if s.Payload <= 0 {
		s.Payload = defaultPayload
	}
	s.Batch = batchOf(s.Batch, s.Payload)
	return s
}

// defaultPayload is in bytes.
const defaultPayload = 64

// payload is so many bytes.
func payload(n int) carillon.Data {
	return carillon.Bytes(bytes.Repeat([]byte("x"), n), carillon.ContentTypeBinary)
}

// Run measures. The ledger's word is that every acknowledged job is there afterwards.
func (s Schedule) Run(ctx context.Context, b *Bench) (Result, error) {
	s = s.withDefaults()
	prefix := newPrefix()
	ledger := newLedger(prefix, s.Jobs)
	due := time.Now().AddDate(1, 0, 0)
	data := payload(s.Payload)
	job := func(i int) carillon.Job {
		ledger.plan(i, due)
		return carillon.Job{Namespace: b.cfg.Namespace, Name: ledger.name(i), Due: carillon.At(due), Data: data,
			Target: carillon.WorkerQueue(prefix)}
	}
	w, err := b.begin(ctx, "schedule")
	if err != nil {
		return Result{}, err
	}
	defer w.close()
	start := time.Now()
	took, err := b.put(ctx, "putting jobs", load{jobs: s.Jobs, mode: s.Mode, callers: s.Callers,
		batch: s.Batch, rate: s.Rate, job: job, acked: ledger.ack})
	if err != nil {
		return Result{}, err
	}
	r := Result{Bench: "schedule", Operations: int64(s.Jobs), Latency: took.quantiles(),
		Parameters: fmt.Sprintf("%d jobs, %s, %d callers, %d B", s.Jobs, s.Mode, s.Callers, s.Payload)}
	r.took(time.Since(start))
	if err := w.end(&r); err != nil {
		return r, err
	}
	if r.Ledger, err = b.count(ctx, ledger); err != nil {
		return r, err
	}
	b.clean(ctx, prefix, &r)
	return r, nil
}

// count lists what is on the node and holds it against the ledger.
func (b *Bench) count(ctx context.Context, l *ledger) (*Verdict, error) {
	q := carillon.JobQuery{Namespace: b.cfg.Namespace, Prefix: l.prefix, PageSize: carillon.MaxBatch}
	defer b.watch("counting jobs", int64(len(l.due)), l.delivered.Load)()
	for {
		page, err := b.conn(0).ListJobs(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("count jobs: %w", err)
		}
		for i := range page.Jobs {
			at := time.Unix(0, 0)
			if n, ok := l.number(page.Jobs[i].Name); ok {
				at = time.Unix(0, l.due[n].Load())
			}
			l.deliver(page.Jobs[i].Name, at)
		}
		if q.PageToken = page.NextPageToken; q.PageToken == "" {
			return l.verdict(), nil
		}
	}
}
