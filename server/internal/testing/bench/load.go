package bench

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
)

// Mode is how jobs are put.
type Mode string

// The modes.
const (
	Unary  Mode = "unary"  // one call a job
	Batch  Mode = "batch"  // one call for many
	Stream Mode = "stream" // a client stream of batches, acknowledged at the end
)

// bulk is what a connection can do besides: load jobs as one stream.
type bulk interface {
	PutStream(ctx context.Context, jobs iter.Seq[carillon.Job]) (client.Loaded, error)
}

// load says which jobs are put, and how.
type load struct {
	jobs    int
	mode    Mode
	callers int
	batch   int     // jobs to a call or message
	rate    float64 // jobs a second; 0 = as fast as it goes
	job     func(i int) carillon.Job
	acked   func(i int)
}

// put puts the jobs and returns how long calls took. With a rate, a call's time counts from when it should
// have begun.
func (b *Bench) put(ctx context.Context, stage string, l load) (*histogram, error) {
	if l.mode == Unary {
		l.batch = 1
	}
	took := newHistogram()
	var done, next atomic.Int64
	defer b.watch(stage, int64(l.jobs), done.Load)()
	start := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for c := range l.callers {
		group.Go(func() error {
			w := putter{load: &l, conn: b.conn(c), took: took, start: start, next: &next, done: &done}
			return w.run(ctx)
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("%s: %w", stage, err)
	}
	return took, nil
}

// putter is one caller.
type putter struct {
	*load
	conn  Conn
	took  *histogram
	start time.Time
	next  *atomic.Int64 // the first job that no caller has taken
	done  *atomic.Int64
}

func (w *putter) run(ctx context.Context) error {
	if w.mode == Stream {
		return w.stream(ctx)
	}
	for {
		from, to := w.take()
		if from >= to {
			return nil
		}
		begin, err := w.wait(ctx, from)
		if err != nil {
			return err
		}
		if err := w.call(ctx, from, to); err != nil {
			return err
		}
		w.took.record(time.Since(begin))
		w.acknowledge(from, to)
	}
}

// take claims the next jobs.
func (w *putter) take() (from, to int) {
	to = int(w.next.Add(int64(w.batch)))
	return to - w.batch, min(to, w.jobs)
}

// wait waits until it is the job's turn, and returns when that is.
func (w *putter) wait(ctx context.Context, i int) (time.Time, error) {
	if w.rate <= 0 {
		return time.Now(), nil
	}
	turn := w.start.Add(time.Duration(float64(i) / w.rate * float64(time.Second)))
	return turn, pause(ctx, time.Until(turn))
}

func (w *putter) call(ctx context.Context, from, to int) error {
	if w.mode == Unary {
		_, err := w.conn.PutJob(ctx, w.job(from))
		return err
	}
	_, err := w.conn.PutJobs(ctx, w.make(from, to))
	return err
}

func (w *putter) make(from, to int) []carillon.Job {
	jobs := make([]carillon.Job, 0, to-from)
	for i := from; i < to; i++ {
		jobs = append(jobs, w.job(i))
	}
	return jobs
}

func (w *putter) acknowledge(from, to int) {
	for i := from; i < to; i++ {
		w.acked(i)
	}
	w.done.Add(int64(to - from))
}

// stream puts what it claims as one stream. Nothing is acknowledged before its end.
func (w *putter) stream(ctx context.Context) error {
	conn, ok := w.conn.(bulk)
	if !ok {
		return errors.New("this connection has no bulk load: use another mode")
	}
	type span struct{ from, to int }
	var sent []span
	_, err := conn.PutStream(ctx, func(yield func(carillon.Job) bool) {
		for from, to := w.take(); from < to; from, to = w.take() {
			sent = append(sent, span{from, to})
			for i := from; i < to; i++ {
				if !yield(w.job(i)) {
					return
				}
			}
		}
	})
	if err != nil {
		return err
	}
	for _, s := range sent {
		w.acknowledge(s.from, s.to)
	}
	return nil
}

// preload puts jobs with so many bytes of payload as fast as it goes, before a measurement.
func (b *Bench) preload(ctx context.Context, jobs, payload int, job func(i int) carillon.Job,
	acked func(i int)) error {
	l := load{jobs: jobs, mode: Batch, callers: 8, job: job, acked: acked}
	// four times as many as by default cost the node a fifth less for each
	l.batch = batchOf(carillon.MaxBatch, payload)
	_, err := b.put(ctx, "loading jobs", l)
	return err
}

// batchOf is a number of jobs to a message, or less if their payloads would make it too large.
func batchOf(n, payload int) int {
	const most = 2 << 20 // half of the largest message
	return max(1, min(n, most/max(1, payload)))
}
