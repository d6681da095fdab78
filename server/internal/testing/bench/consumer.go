package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon"
)

// consumers are worker sessions that receive the runs of a queue, enter them in a ledger and answer with
// success.
type consumers struct {
	queue string
	hold  time.Duration // how long a run is kept before its answer
	sink  sink
	late  *histogram

	acks  atomic.Int64 // results that the node has made durable
	stale atomic.Int64 // results that it refused
	wg    sync.WaitGroup
	over  context.Context    // ends when the sessions are to say goodbye
	leave context.CancelFunc // ends over

	mu  sync.Mutex
	err error // the first that ended a session before its time
}

// workerOptions says how runs are received.
type workerOptions struct {
	Workers int           // sessions
	Credits int           // runs in flight for each
	Hold    time.Duration // how long a worker keeps a run
}

func (o workerOptions) withDefaults() workerOptions {
	if o.Workers <= 0 {
		o.Workers = 4
	}
	if o.Credits <= 0 {
		o.Credits = 10_000
	}
	return o
}

// consume opens sessions for a queue. They go on until Close.
func (b *Bench) consume(ctx context.Context, queue string, o workerOptions, s sink) (*consumers, error) {
	c := &consumers{queue: queue, hold: o.Hold, sink: s, late: newHistogram()}
	c.over, c.leave = context.WithCancel(ctx)
	for i := range o.Workers {
		// Of payloads nothing is looked at, so it does not matter where they are.
		hello := carillon.Hello{Namespace: b.cfg.Namespace, Queues: []string{queue}, Payloads: true,
			WorkerID: fmt.Sprintf("bench-%d", i)}
		session, err := b.conn(i).Connect(ctx, hello)
		if err == nil {
			err = session.Send(ctx, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: queue, N: o.Credits}}})
		}
		if err != nil {
			c.close()
			return nil, fmt.Errorf("connect a worker: %w", err)
		}
		c.start(ctx, session)
	}
	return c, nil
}

// close ends the sessions and returns what ended one of them before its time. It may be called again.
func (c *consumers) close() error {
	c.leave()
	c.wg.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// fail keeps the first error; what comes after the end is not one.
func (c *consumers) fail(err error) {
	if err == nil || c.over.Err() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
}

// held is runs that wait for their answer.
type held struct {
	at      time.Time
	results []carillon.Result
}

// lingering is how long a session may take to end once it is closed.
const lingering = 5 * time.Second

// start runs a session: one goroutine receives, one answers.
func (c *consumers) start(ctx context.Context, session carillon.Session) {
	answers := make(chan held, 1<<16)
	ctx, cut := context.WithCancel(ctx)
	c.wg.Go(func() {
		defer close(answers)
		c.fail(c.receive(ctx, session, answers))
	})
	c.wg.Go(func() {
		c.fail(c.answer(ctx, session, answers))
		_ = session.Close() // the receiver ends with it, once the goodbye has gone out
		time.AfterFunc(lingering, cut)
	})
}

func (c *consumers) receive(ctx context.Context, session carillon.Session, answers chan<- held) error {
	for {
		res, err := session.Receive(ctx)
		if err != nil {
			return err
		}
		now := time.Now()
		c.acks.Add(int64(len(res.Acks)))
		c.stale.Add(int64(len(res.Stale)))
		if len(res.Runs) == 0 {
			continue
		}
		select {
		case answers <- held{now, c.enter(res.Runs, now)}:
		case <-c.over.Done():
			return nil
		}
	}
}

// enter puts runs into the ledger and makes their results.
func (c *consumers) enter(runs []carillon.Run, now time.Time) []carillon.Result {
	results := make([]carillon.Result, 0, len(runs))
	late := make([]time.Duration, 0, len(runs))
	for i := range runs {
		if d, ok := c.sink.receive(&runs[i], now); ok {
			late = append(late, d)
		}
		results = append(results, carillon.Result{Token: runs[i].Token, RunID: runs[i].ID,
			Outcome: carillon.OutcomeSuccess})
	}
	c.late.record(late...)
	return results
}

// answer sends results, and as many new credits, once their time has come, and goodbye at the end, so that
// what is still on its way here is freed at once.
func (c *consumers) answer(ctx context.Context, session carillon.Session, answers <-chan held) error {
	for {
		select {
		case <-c.over.Done():
			return session.Send(ctx, carillon.WorkRequest{Goodbye: true})
		case h, ok := <-answers:
			if !ok {
				return nil // the receiver says why
			}
			if pause(c.over, time.Until(h.at.Add(c.hold))) != nil {
				continue
			}
			results := c.gather(h.results, answers)
			req := carillon.WorkRequest{Results: results,
				Credits: []carillon.Credit{{Queue: c.queue, N: len(results)}}}
			if err := session.Send(ctx, req); err != nil {
				return err
			}
		}
	}
}

// gather adds what else waits to be answered at once, so that it goes as one message.
func (c *consumers) gather(results []carillon.Result, answers <-chan held) []carillon.Result {
	const most = 4096 // results to a message
	for c.hold == 0 && len(results) < most {
		select {
		case h, ok := <-answers:
			if !ok {
				return results
			}
			results = append(results, h.results...)
		default:
			return results
		}
	}
	return results
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

// until waits for done, a time limit or the end of the bench; false is not done.
func until(ctx context.Context, limit time.Duration, done func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for !done() {
		if pause(ctx, 2*time.Millisecond) != nil {
			return done()
		}
	}
	return true
}
