package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/checker"
)

// worker connects, takes runs and treats them well or badly. What it goes through with a run hangs on the run and the
// attempt alone.
type worker struct {
	w     *world
	plan  *Worker
	actor int

	mu     sync.Mutex
	conn   *conn
	sent   map[string][]int // token → places of its results in the history
	unsaid []said           // results that nobody has answered yet
	met    map[string]int   // attempts by run and number
	work   sync.WaitGroup
}

// said is a result that waits for its answer.
type said struct {
	res   carillon.Result
	queue string
}

// conn is one stream and what goes on in it.
type conn struct {
	s    carillon.Session
	gone chan struct{} // the process at its end has gone: whoever works in it stops
	once sync.Once
}

func newWorker(w *world, i int) *worker {
	return &worker{w: w, plan: &w.plan.Workers[i], actor: actorWorker + i, sent: map[string][]int{}, met: map[string]int{}}
}

// run connects again and again until it leaves.
func (k *worker) run() {
	pauseUntil(k.actor, k.w.at(k.plan.From))
	until := k.w.at(k.plan.To)
	for time.Now().Before(until) {
		if c := k.connect(); c != nil {
			k.serve(c, until)
		}
		pause(k.actor, between(k.w.chance.now("connect", uint64(k.actor)), 20*time.Millisecond, 300*time.Millisecond))
	}
	k.work.Wait()
}

// node is where the worker connects: it takes turns.
func (k *worker) node() *node {
	return k.w.nodes[k.w.chance.now("which node", uint64(k.actor)).IntN(len(k.w.nodes))]
}

// connect opens a stream and says again what was not answered on the last one.
func (k *worker) connect() *conn {
	l := k.node().life()
	if l == nil {
		return nil
	}
	ctx := context.Background()
	connect := l.hub.Connect
	if k.plan.Near {
		connect = l.hub.Local().Connect
	}
	s, err := connect(ctx, carillon.Hello{Namespace: k.plan.Namespace, Queues: k.plan.Queues, WorkerID: k.plan.Name})
	if err != nil {
		return nil
	}
	c := &conn{s: s, gone: make(chan struct{})}
	k.mu.Lock()
	again := slices.Clone(k.unsaid)
	if k.conn != nil { // the process is the same
		c.gone = k.conn.gone
	}
	k.conn = c
	k.mu.Unlock()
	for _, u := range again {
		k.say(u)
	}
	var req carillon.WorkRequest
	for _, q := range k.plan.Queues {
		req.Credits = append(req.Credits, carillon.Credit{Queue: q, N: k.plan.Credits})
	}
	pause(k.actor, 0)
	if s.Send(ctx, req) != nil {
		_ = s.Close() // it is over
		return nil
	}
	return c
}

// serve takes what comes until the stream ends or the worker's time is over: then it says goodbye when all is done.
func (k *worker) serve(c *conn, until time.Time) {
	stop := time.AfterFunc(time.Until(until), func() { k.goodbye(c) })
	defer stop.Stop()
	for {
		msg, err := c.s.Receive(context.Background())
		if err != nil {
			_ = c.s.Close() // it is over
			return
		}
		k.hear(msg)
		for i := range msg.Runs {
			k.take(c, &msg.Runs[i])
		}
	}
}

// take notes a run that has come and begins it.
func (k *worker) take(c *conn, r *carillon.Run) {
	k.w.rec.Attempt(attemptOf(r, k.plan.Name, k.plan.Namespace))
	k.mu.Lock()
	id := fmt.Sprintf("%s/%d", r.ID, r.Attempt)
	nth := k.met[id]
	k.met[id]++
	k.mu.Unlock()
	k.work.Go(func() { k.treat(c, r, nth) })
}

func attemptOf(r *carillon.Run, worker, tenant string) checker.Attempt {
	return checker.Attempt{RunID: r.ID, Namespace: r.Namespace, Job: r.Job, Cause: r.Cause.String(), Scheduled: r.Scheduled, Due: r.Due,
		Number: r.Attempt, Token: r.Token, Payload: string(r.Data.Bytes), Backfill: r.Backfill, Worker: worker, Tenant: tenant}
}

// hear notes what became of results.
func (k *worker) hear(msg carillon.WorkResponse) {
	k.mu.Lock()
	defer k.mu.Unlock()
	note := func(tokens []string, v checker.ResultVerdict) {
		for _, t := range tokens {
			for _, i := range k.sent[t] {
				k.w.rec.Told(i, v)
			}
			k.unsaid = slices.DeleteFunc(k.unsaid, func(u said) bool { return u.res.Token == t })
		}
	}
	note(msg.Acks, checker.Acked)
	note(msg.Stale, checker.Stale)
}

// cut ends the stream, as a broken network would; the worker lives and comes back.
func (k *worker) cut() {
	k.mu.Lock()
	c := k.conn
	k.mu.Unlock()
	if c != nil {
		_ = c.s.Close() // it may be over already
	}
}

// crash ends the process: its runs stop, and it remembers nothing.
func (k *worker) crash(c *conn) {
	c.once.Do(func() {
		close(c.gone)
		k.mu.Lock()
		if k.conn != nil && k.conn.gone == c.gone {
			_ = k.conn.s.Close() // it may be over already
			k.conn = nil
		}
		k.unsaid = nil
		k.mu.Unlock()
	})
}

// goodbye ends the process in order.
func (k *worker) goodbye(c *conn) {
	pause(k.actor, 0)
	_ = c.s.Send(context.Background(), carillon.WorkRequest{Goodbye: true}) // a stream that is over takes none
	k.crash(c)
}

// send says something on the stream that there is now.
func (k *worker) send(req carillon.WorkRequest) {
	k.mu.Lock()
	c := k.conn
	k.mu.Unlock()
	if c != nil {
		_ = c.s.Send(context.Background(), req) // if the stream is over it is said again on the next
	}
}

// report sends a result, and goes on sending it on each new stream until it is answered.
func (k *worker) report(r *carillon.Run, res carillon.Result) {
	res.Token, res.RunID = r.Token, r.ID
	u := said{res, r.Queue}
	k.mu.Lock()
	if res.Outcome != carillon.OutcomeProgress {
		k.unsaid = append(k.unsaid, u)
	}
	k.mu.Unlock()
	k.say(u)
}

// say writes down a result and sends it, with room for the next run.
func (k *worker) say(u said) {
	k.mu.Lock()
	i := k.w.rec.Sent(resultOf(&u.res))
	k.sent[u.res.Token] = append(k.sent[u.res.Token], i)
	k.mu.Unlock()
	req := carillon.WorkRequest{Results: []carillon.Result{u.res}}
	if u.res.Outcome != carillon.OutcomeProgress {
		req.Credits = []carillon.Credit{{Queue: u.queue, N: 1}}
	}
	k.send(req)
}

// resultOf is a result in the checker's words.
func resultOf(r *carillon.Result) checker.Result {
	out := checker.Result{RunID: r.RunID, Token: r.Token, After: r.RetryAfter, To: r.At}
	if id, err := attemptOfToken(r.Token); err == nil {
		out.Number = id
	}
	switch {
	case r.Outcome == carillon.OutcomeSuccess:
		out.Kind = checker.Success
	case r.Outcome == carillon.OutcomeProgress:
		out.Kind = checker.Progress
	case r.Outcome == carillon.OutcomeReschedule:
		out.Kind = checker.Reschedule
	case r.Permanent:
		out.Kind = checker.Permanent
	case r.RetryAfter > 0:
		out.Kind = checker.RetryAfter
	default:
		out.Kind = checker.Failure
	}
	return out
}

// gaveUp notes that nothing will be said of an attempt.
func (k *worker) gaveUp(r *carillon.Run) {
	k.w.rec.Sent(checker.Result{RunID: r.ID, Token: r.Token, Number: r.Attempt, Kind: checker.LostWorker})
}

var errGone = errors.New("sim: the process has gone")

// wait passes time for a run; it is an error if the process ends first, which is noted.
func (k *worker) wait(c *conn, r *carillon.Run, d time.Duration) error {
	t := time.NewTimer(aligned(k.actor, d))
	defer t.Stop()
	select {
	case <-t.C:
		select {
		case <-c.gone:
		default:
			return nil
		}
	case <-c.gone:
	}
	k.gaveUp(r)
	return errGone
}
