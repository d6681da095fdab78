package sim

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
)

var queues = []string{"red", "blue"}

// worker connects, takes runs and treats them well or badly.
type worker struct {
	id     string
	node   *node
	ledger *Ledger
	rng    *rand.Rand
	near   bool // in the node's process: its attempts are durable before it gets them
	good   bool // only succeeds, at once: what a run without faults has

	mu   sync.Mutex
	sent map[string][]int // token → places of its results in the ledger
}

// conn is one session and the runs that go on in it.
type conn struct {
	w    *worker
	s    carillon.Session
	wg   sync.WaitGroup
	gone chan struct{}
	once sync.Once
}

// run connects again and again until the deadline.
func (w *worker) run(until time.Time) {
	for time.Now().Before(until) {
		if c := w.connect(); c != nil {
			c.serve(until)
			c.wg.Wait()
		}
		time.Sleep(100*time.Millisecond + w.delay(time.Second))
	}
}

func (w *worker) delay(most time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(w.rng.Int64N(int64(most)))
}

func (w *worker) chance(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

func (w *worker) connect() *conn {
	l := w.node.now()
	if l == nil {
		return nil
	}
	ctx := context.Background()
	connect := l.hub.Connect
	if w.near {
		connect = l.hub.Local().Connect
	}
	s, err := connect(ctx, carillon.Hello{Namespace: namespace, Queues: queues, WorkerID: w.id})
	if err != nil {
		return nil
	}
	c := &conn{w: w, s: s, gone: make(chan struct{})}
	var credits []carillon.Credit
	for _, q := range queues {
		credits = append(credits, carillon.Credit{Queue: q, N: 3})
	}
	if s.Send(ctx, carillon.WorkRequest{Credits: credits}) != nil {
		return nil
	}
	return c
}

// leave closes the session, as a crash of the worker would, or with a goodbye.
func (c *conn) leave(goodbye bool) {
	c.once.Do(func() {
		if goodbye {
			_ = c.s.Send(context.Background(), carillon.WorkRequest{Goodbye: true}) // a session that is over takes none
		}
		now := time.Now()
		c.w.ledger.fault(Fault{Kind: "worker leaves", From: now, To: now})
		close(c.gone)
		_ = c.s.Close()
	})
}

// serve takes what comes until the session ends or the time is over.
func (c *conn) serve(until time.Time) {
	stop := time.AfterFunc(time.Until(until), func() { c.leave(true) })
	defer stop.Stop()
	for {
		msg, err := c.s.Receive(context.Background())
		if err != nil {
			c.leave(false)
			return
		}
		c.w.hear(msg)
		for _, r := range msg.Runs {
			c.w.ledger.attempt(Attempt{RunID: r.ID, Job: r.Job, Cause: r.Cause.String(),
				Scheduled: r.Scheduled, Number: r.Attempt, Token: r.Token, At: time.Now()})
			c.wg.Go(func() { c.treat(r) })
		}
	}
}

// hear notes what became of results.
func (w *worker) hear(msg carillon.WorkResponse) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	note := func(tokens []string, acked bool) {
		for _, t := range tokens {
			for _, i := range w.sent[t] {
				w.ledger.told(i, acked, now)
			}
		}
	}
	note(msg.Acks, true)
	note(msg.Stale, false)
}

// treat does one run, well or badly.
func (c *conn) treat(r carillon.Run) {
	if c.w.good {
		c.report(r, true)
		return
	}
	work := c.w.delay(1500 * time.Millisecond)
	switch x := c.w.chance(100); {
	case x < 60:
		c.wait(work)
		c.report(r, true)
	case x < 75:
		c.wait(work)
		c.report(r, false)
	case x < 80: // twice
		c.wait(work)
		c.report(r, true)
		c.report(r, true)
	case x < 85: // hangs, and answers late
		c.wait(r.Lease + c.w.delay(5*time.Second))
		c.report(r, true)
	case x < 88: // the worker crashes
		c.wait(work)
		c.leave(false)
	case x < 91: // the worker says goodbye in the middle
		c.wait(work)
		c.leave(true)
	case x < 94: // a made-up token
		c.send(carillon.Result{Token: "made-up" + r.Token, RunID: r.ID, Outcome: carillon.OutcomeSuccess}, r.Queue)
		c.report(r, true)
	default: // long, with beats
		for range 4 {
			c.wait(r.Lease / 2)
			_ = c.s.Send(context.Background(), carillon.WorkRequest{Beats: []carillon.Beat{{Token: r.Token, RunID: r.ID}}})
		}
		c.report(r, true)
	}
}

// wait passes time, less if the session ends.
func (c *conn) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-c.gone:
	}
}

// report sends a result and a credit for the next run.
func (c *conn) report(r carillon.Run, success bool) {
	select {
	case <-c.gone:
		return // a crashed worker says nothing
	default:
	}
	res := carillon.Result{Token: r.Token, RunID: r.ID, Outcome: carillon.OutcomeFailure, Message: "sim"}
	if success {
		res.Outcome = carillon.OutcomeSuccess
	}
	i := c.w.ledger.sent(Result{RunID: r.ID, Token: r.Token, Number: r.Attempt, Success: success, Sent: time.Now()})
	c.w.mu.Lock()
	c.w.sent[r.Token] = append(c.w.sent[r.Token], i)
	c.w.mu.Unlock()
	c.send(res, r.Queue)
}

func (c *conn) send(res carillon.Result, queue string) {
	// A session that is over takes nothing; the run goes on by its lease.
	_ = c.s.Send(context.Background(), carillon.WorkRequest{Results: []carillon.Result{res}, Credits: []carillon.Credit{{Queue: queue, N: 1}}})
}
