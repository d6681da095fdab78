package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
)

// worker connects to every node, takes runs and treats them well or badly. What it goes through with a run
// hangs on the run and the attempt alone.
type worker struct {
	w     *world
	plan  *Worker
	actor int

	mu     sync.Mutex
	proc   *process         // nil = it has none
	conns  map[int]*conn    // by node: the streams there are, some of which may be over without it knowing
	sent   map[string][]int // token → places of its results in the history
	unsaid []said           // results that nobody has answered yet
	met    map[string]int   // attempts by run and number
	sleep  sleep
	work   sync.WaitGroup
}

// said is a result that waits for its answer.
type said struct {
	res   carillon.Result
	queue string
	node  int // through which the attempt came
}

// process is one life of a worker.
type process struct {
	gone  chan struct{} // closed when it has: whoever works in it stops
	once  sync.Once
	doing map[string]bool // tokens of the attempts that are being treated; under the worker's lock
}

// conn is one stream to a node and what goes on in it.
type conn struct {
	*process
	s     carillon.Session
	node  *node
	actor int

	mu     sync.Mutex
	queued []carillon.WorkRequest // while the node stands still
	over   bool
}

func newWorker(w *world, i int) *worker {
	return &worker{w: w, plan: &w.plan.Workers[i], actor: actorWorker + i, conns: map[int]*conn{},
		sent: map[string][]int{}, met: map[string]int{}}
}

// run is connected to all nodes until it leaves.
func (k *worker) run() {
	var lines sync.WaitGroup
	for _, n := range k.w.nodes {
		lines.Go(func() { k.line(n, k.actor+n.number*maxWorkers) })
	}
	lines.Wait()
	k.work.Wait()
}

// line connects to a node again and again until the worker leaves.
func (k *worker) line(n *node, actor int) {
	pauseUntil(actor, k.w.at(k.plan.From))
	until := k.w.at(k.plan.To)
	for time.Now().Before(until) {
		k.awake(actor)
		if c := k.connect(n, actor); c != nil {
			k.serve(c, until)
			k.elsewhere(c)
		}
		pause(actor, between(k.w.chance.now("connect", uint64(actor)), 20*time.Millisecond, 300*time.Millisecond))
	}
}

// connect opens a stream and says again what was not answered on the last one.
func (k *worker) connect(n *node, actor int) *conn {
	l := n.life()
	if l == nil || n.gate.closed() != nil {
		return nil
	}
	ctx := context.Background()
	connect := l.hub.Connect
	if k.plan.Near {
		connect = l.hub.Local().Connect
	}
	s, err := connect(ctx, carillon.Hello{Namespace: k.plan.Namespace, Queues: k.plan.Queues,
		WorkerID: k.plan.Name})
	if err != nil {
		return nil
	}
	k.mu.Lock()
	again := slices.DeleteFunc(slices.Clone(k.unsaid), func(u said) bool { return u.node != n.number })
	if k.proc == nil {
		k.proc = &process{gone: make(chan struct{}), doing: map[string]bool{}}
	}
	c := &conn{process: k.proc, s: s, node: n, actor: actor}
	k.conns[n.number] = c
	k.mu.Unlock()
	for _, u := range again {
		k.say(u)
	}
	var req carillon.WorkRequest
	for _, q := range k.plan.Queues {
		req.Credits = append(req.Credits, carillon.Credit{Queue: q, N: k.plan.Credits})
	}
	pause(actor, 0)
	if c.send(req) != nil {
		_ = s.Close() // it is over
		c.end()
		return nil
	}
	return c
}

// send says something on the stream. What is said to a node that stands still is heard when it goes on.
func (c *conn) send(req carillon.WorkRequest) error {
	c.mu.Lock()
	if c.over {
		c.mu.Unlock()
		return errGone
	}
	shut := c.node.gate.closed()
	if shut != nil || len(c.queued) > 0 {
		c.queued = append(c.queued, req)
		if len(c.queued) == 1 {
			c.node.w.calls.Go(func() { c.catchUp() })
		}
		c.mu.Unlock()
		return nil
	}
	c.mu.Unlock()
	return c.s.Send(context.Background(), req)
}

// catchUp sends what was said meanwhile.
func (c *conn) catchUp() {
	c.node.gate.wait()
	pause(c.actor, 0)
	for {
		c.mu.Lock()
		if len(c.queued) == 0 {
			c.mu.Unlock()
			return
		}
		req := c.queued[0]
		c.mu.Unlock()
		_ = c.s.Send(context.Background(), req) // a stream that is over takes none
		c.mu.Lock()
		c.queued = c.queued[1:]
		c.mu.Unlock()
	}
}

// end notes that the stream is over.
func (c *conn) end() {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
}

func (c *conn) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

// elsewhere says what was not answered on a stream that is over on another one, if there is one.
func (k *worker) elsewhere(c *conn) {
	c.end()
	if len(k.w.nodes) == 1 {
		return
	}
	k.mu.Lock()
	again := slices.DeleteFunc(slices.Clone(k.unsaid), func(u said) bool { return u.node != c.node.number })
	k.mu.Unlock()
	pause(c.actor, time.Millisecond)
	for _, u := range again {
		k.say(u)
	}
}

// to is the stream to a node or, if there is none, the first one that there is.
func (k *worker) to(node int) *conn {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.conns[node]; c != nil && (!c.isOver() || len(k.w.nodes) == 1) {
		return c
	}
	for i := range k.w.nodes {
		if c := k.conns[i]; c != nil && !c.isOver() {
			return c
		}
	}
	return nil
}

// serve takes what comes until the stream ends or the worker's time is over: then it says goodbye when all is
// done.
func (k *worker) serve(c *conn, until time.Time) {
	stop := time.AfterFunc(time.Until(until), func() { k.goodbye(c.process) })
	defer stop.Stop()
	for {
		msg, err := c.s.Receive(context.Background())
		if err != nil {
			_ = c.s.Close() // it is over
			return
		}
		if k.buffered(c, &msg) {
			continue
		}
		k.answer(c, &msg)
		for i := range msg.Runs {
			k.note(c, &msg.Runs[i])
			k.begin(c, &msg.Runs[i])
		}
	}
}

// answer takes what a node says, the runs aside.
func (k *worker) answer(c *conn, msg *carillon.WorkResponse) {
	k.hear(*msg)
	k.confirmed(msg)
	if msg.Ping {
		k.send(c.node.number, carillon.WorkRequest{Pong: true})
	}
}

// note writes down a run that has come.
func (k *worker) note(c *conn, r *carillon.Run) {
	a := attemptOf(r, k.plan.Name, k.plan.Namespace)
	a.Node = c.node.name()
	a.Partition, a.Epoch = termOfToken(r.Token)
	k.w.rec.Attempt(a)
	k.w.mayPause(r, k.plan.Name)
}

// begin begins a run, unless the worker has it already: then, as package worker does, it gives back the
// credit and says once what becomes of it.
func (k *worker) begin(c *conn, r *carillon.Run) {
	k.mu.Lock()
	id := fmt.Sprintf("%s/%d", r.ID, r.Attempt)
	nth := k.met[id]
	k.met[id]++
	has := c.doing[r.Token] || slices.ContainsFunc(k.unsaid, func(u said) bool { return u.res.Token == r.Token })
	if !has {
		c.doing[r.Token] = true
		delete(k.sent, r.Token) // what was said of it before has been answered, or never will be
	}
	k.mu.Unlock()
	if has {
		k.send(c.node.number, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: r.Queue, N: 1}}})
		return
	}
	k.work.Go(func() {
		k.treat(c, r, nth)
		k.mu.Lock()
		delete(c.doing, r.Token)
		k.mu.Unlock()
	})
}

func attemptOf(r *carillon.Run, worker, tenant string) checker.Attempt {
	return checker.Attempt{RunID: r.ID, Namespace: r.Namespace, Job: r.Job, Cause: r.Cause.String(),
		Scheduled: r.Scheduled, Due: r.Due,
		Number: r.Attempt, Token: r.Token, Payload: string(r.Data.Bytes), Backfill: r.Backfill,
		Worker: worker, Tenant: tenant, InDoubt: r.InDoubt}
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

// cut ends the streams, as a broken network would; the worker lives and comes back.
func (k *worker) cut() {
	k.mu.Lock()
	conns := k.inOrder()
	k.mu.Unlock()
	for _, c := range conns {
		_ = c.s.Close() // it may be over already
	}
}

// inOrder are the streams by node. The caller holds the lock.
func (k *worker) inOrder() (conns []*conn) {
	for i := range k.w.nodes {
		if c := k.conns[i]; c != nil {
			conns = append(conns, c)
		}
	}
	return conns
}

// crash ends the process: its runs stop, and it remembers nothing.
func (k *worker) crash(p *process) {
	p.once.Do(func() {
		close(p.gone)
		k.mu.Lock()
		for _, c := range k.inOrder() {
			if c.process == p {
				_ = c.s.Close() // it may be over already
				delete(k.conns, c.node.number)
			}
		}
		if k.proc == p {
			k.proc = nil
		}
		k.unsaid = nil
		k.mu.Unlock()
	})
}

// goodbye ends the process in order.
func (k *worker) goodbye(p *process) {
	pause(k.actor, 0)
	k.mu.Lock()
	conns := slices.DeleteFunc(k.inOrder(), func(c *conn) bool { return c.process != p })
	k.mu.Unlock()
	for _, c := range conns {
		_ = c.send(carillon.WorkRequest{Goodbye: true}) // a stream that is over takes none
	}
	k.crash(p)
}

// send says something on the stream to a node that there is now.
func (k *worker) send(node int, req carillon.WorkRequest) {
	if c := k.to(node); c != nil {
		if c.node.number != node {
			req.Credits = nil // they were those of the other stream
		}
		_ = c.send(req) // if the stream is over it is said again on the next
	}
}

// report sends a result, and goes on sending it on each new stream until it is answered.
func (k *worker) report(c *conn, r *carillon.Run, res carillon.Result) {
	res.Token, res.RunID = r.Token, r.ID
	u := said{res, r.Queue, c.node.number}
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
	k.send(u.node, req)
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
		k.awake(k.actor)
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
