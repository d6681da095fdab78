package chaos

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
	"github.com/carillonhq/carillon/server/internal/testing/deliveries"
	"github.com/carillonhq/carillon/worker"
)

// habit is what a worker does with an attempt.
type habit int

const (
	succeed   habit = iota
	fail            // and is to be tried again
	give            // up: a failure not to be tried again
	hang            // says nothing
	beLate          // succeeds, after the lease
	repeat          // says so twice
	fabricate       // says so with a token that it made up, and then with the right one
	work            // for longer than the lease, with heartbeats
	crash           // cuts its connection, with everything that it has
)

// habits are how often each is met.
var habits = []habit{
	succeed, succeed, succeed, succeed, succeed, succeed, succeed, succeed, succeed, succeed, succeed, succeed,
	succeed, succeed, succeed, succeed, succeed, succeed, succeed, succeed, fail, fail, fail, fail, give, hang,
	hang, beLate, beLate, repeat, repeat, fabricate, fabricate, work, work, crash,
}

// laborer is a worker without the SDK, so that it can do what no SDK would. When it is good it just succeeds.
type laborer struct {
	name    string
	address string
	sees    witness
	good    <-chan struct{} // closed when the campaign heals

	mu      sync.Mutex
	dice    dice
	session carillon.Session
	conn    *cuttable
	client  *client.Client
	answers answers         // to what was said in this session
	doing   map[string]bool // attempts that are being worked on, by token
	unsaid  []words
	busy    sync.WaitGroup
}

// words are a result to be said, of the attempt of a number.
type words struct {
	carillon.Result
	number int
}

// credits are how many attempts of each queue a laborer takes at a time.
const credits = 20

// run connects, again and again, until ctx ends.
func (l *laborer) run(ctx context.Context) {
	l.answers, l.doing = newAnswers(), map[string]bool{}
	back := func() {}
	for ctx.Err() == nil {
		if l.connect(ctx) == nil {
			back()
			l.receive(ctx)
			back = l.sees.away()
		}
		l.cut()
		_ = pause(ctx, 20*time.Millisecond) // the loop looks at ctx
	}
	back()
	l.busy.Wait()
}

// connect opens a session and says what is still to be said.
func (l *laborer) connect(ctx context.Context) error {
	conn := &cuttable{}
	c, err := client.Dial(l.address, client.WithOneAddress(),
		client.WithDialOptions(grpc.WithContextDialer(conn.dial)))
	if err != nil {
		return err
	}
	opening, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	s, err := c.Connect(opening, carillon.Hello{Namespace: namespace, Queues: queues, WorkerID: l.name})
	if err != nil {
		return errors.Join(err, c.Close())
	}
	req := carillon.WorkRequest{}
	for _, q := range queues {
		req.Credits = append(req.Credits, carillon.Credit{Queue: q, N: credits})
	}
	l.mu.Lock()
	l.session, l.conn, l.client = s, conn, c
	l.mu.Unlock()
	if err := s.Send(opening, req); err != nil {
		return err
	}
	l.mu.Lock()
	unsaid := l.unsaid
	l.unsaid = nil
	l.mu.Unlock()
	for _, w := range unsaid {
		l.say(w, "")
	}
	return nil
}

// cut ends the connection as a crash would. What waits for an answer is said again by the next session, or
// forgotten.
func (l *laborer) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client == nil {
		return
	}
	l.conn.cut()
	_ = l.client.Close() // its connection is gone already
	l.session, l.client, l.conn = nil, nil, nil
	l.answers = newAnswers()
}

// receive takes messages until the session ends.
func (l *laborer) receive(ctx context.Context) {
	l.mu.Lock()
	s := l.session
	l.mu.Unlock()
	for {
		msg, err := s.Receive(ctx)
		if err != nil {
			return
		}
		l.answered(msg.Acks, checker.Acked)
		l.answered(msg.Stale, checker.Stale)
		if msg.Ping {
			l.send(carillon.WorkRequest{Pong: true})
		}
		for i := range msg.Runs {
			l.sees.attempt(attemptOf(&msg.Runs[i], l.name))
		}
		for _, run := range msg.Runs {
			switch h := l.habit(); {
			case h == crash:
				return
			// in doubt, and handed out again: one attempt has one result, as with package worker
			case l.has(run.Token):
				l.send(carillon.WorkRequest{Credits: []carillon.Credit{{Queue: run.Queue, N: 1}}})
			default:
				l.begin(run.Token)
				l.busy.Go(func() {
					defer l.end(run.Token)
					l.do(ctx, run, h)
				})
			}
		}
		if msg.Drain {
			return // go elsewhere: to the same node, when it is back
		}
	}
}

// has reports whether an attempt is being worked on, or its result has been said and not been answered yet.
// An answer names a token and no result: of two that differ nobody could say which one it is to.
func (l *laborer) has(token string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.doing[token] || l.answers.waits(token)
}

func (l *laborer) begin(token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doing[token] = true
}

func (l *laborer) end(token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.doing, token)
}

func (l *laborer) habit() habit {
	select {
	case <-l.good:
		return succeed
	default:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return pick(l.dice, habits...)
}

// attemptOf is a run as it came.
func attemptOf(r *carillon.Run, name string) checker.Attempt {
	return checker.Attempt{
		RunID: r.ID, Namespace: r.Namespace, Job: r.Job, Cause: r.Cause.String(),
		Scheduled: r.Scheduled, Due: r.Due, Number: r.Attempt, Token: r.Token,
		Payload: hashOf(r.Data.Bytes), Worker: name, Started: r.Started, Lease: r.Lease, InDoubt: r.InDoubt,
	}
}

// answered notes what became of results.
func (l *laborer) answered(tokens []string, v checker.ResultVerdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range tokens {
		if place, ok := l.answers.told(t, v); ok {
			l.sees.told(place, t, v)
		}
	}
}

// do works on an attempt by a habit.
func (l *laborer) do(ctx context.Context, run carillon.Run, h habit) {
	good := words{carillon.Result{Token: run.Token, RunID: run.ID, Outcome: carillon.OutcomeSuccess},
		run.Attempt}
	l.mu.Lock()
	length, late := l.dice.between(0, 150*time.Millisecond), l.dice.between(workerLease, 2*workerLease)
	l.mu.Unlock()
	switch h {
	case hang:
		l.sent(run.Token, run.ID, run.Attempt, checker.LostWorker)
		l.send(carillon.WorkRequest{Credits: []carillon.Credit{{Queue: run.Queue, N: 1}}})
		return
	case beLate:
		length = late
	case work:
		l.beat(ctx, &run, late)
		length = 0
	}
	if pause(ctx, length) != nil {
		return
	}
	switch h {
	case fail, give:
		l.say(words{carillon.Result{Token: run.Token, RunID: run.ID, Message: "out of paper",
			Permanent: h == give}, run.Attempt}, run.Queue)
		return
	case fabricate:
		forged := good
		forged.Token = Forge(run.Token)
		l.sent(forged.Token, run.ID, run.Attempt, checker.Fabricated)
		l.send(carillon.WorkRequest{Results: []carillon.Result{forged.Result}})
	case repeat:
		l.say(good, "")
	}
	l.say(good, run.Queue)
}

// Forge changes one letter of a token.
func Forge(token string) string {
	b := []byte(token)
	i := len(b) / 2
	if b[i] == 'a' {
		b[i] = 'b'
	} else {
		b[i] = 'a'
	}
	return string(b)
}

// heartbeat works for a while and says that it does.
func (l *laborer) beat(ctx context.Context, run *carillon.Run, length time.Duration) {
	for end := time.Now().Add(length); time.Now().Before(end); {
		l.sees.beat(checker.Heartbeat{RunID: run.ID, Token: run.Token})
		l.send(carillon.WorkRequest{Heartbeats: []carillon.Heartbeat{{Token: run.Token, RunID: run.ID}}})
		if pause(ctx, workerLease/4) != nil {
			return
		}
	}
}

// say sends a result and, with it, room for another attempt of a queue. Without a session it is kept for the
// next one.
func (l *laborer) say(res words, queue string) {
	l.mu.Lock()
	if l.session == nil {
		if l.dice.chance(2) {
			l.unsaid = append(l.unsaid, res)
		}
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	kind := checker.Success
	switch {
	case res.Outcome == carillon.OutcomeFailure && res.Permanent:
		kind = checker.Permanent
	case res.Outcome == carillon.OutcomeFailure:
		kind = checker.Failure
	}
	l.sent(res.Token, res.RunID, res.number, kind)
	req := carillon.WorkRequest{Results: []carillon.Result{res.Result}}
	if queue != "" {
		req.Credits = []carillon.Credit{{Queue: queue, N: 1}}
	}
	l.send(req)
}

// sent notes a result.
func (l *laborer) sent(token, id string, number int, kind checker.ResultKind) {
	at := l.sees.sent(checker.Result{RunID: id, Token: token, Number: number, Kind: kind})
	if kind == checker.LostWorker {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers.said(token, at)
}

// send sends if there is a session. That it could not is seen from the answer that does not come.
func (l *laborer) send(req carillon.WorkRequest) {
	l.mu.Lock()
	s := l.session
	l.mu.Unlock()
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.Send(ctx, req) // see above
}

// cuttable is the connections of a client, to be cut without a word.
type cuttable struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (c *cuttable) dial(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = append(c.conns, conn)
	return conn, nil
}

// cut resets the connections: the other side gets no goodbye, of no layer.
func (c *cuttable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a closed one is as good
		}
		_ = conn.Close() // same
	}
	c.conns = slices.Delete(c.conns, 0, len(c.conns))
}

// errPaper is what the SDK's worker fails with.
var errPaper = errors.New("out of paper")

// employee is a worker with the SDK: it keeps results across connections.
func employee(c carillon.Work, record *checker.Recorder, book *deliveries.Book, d dice,
	good <-chan struct{}) *worker.Worker {
	w := worker.New(c, worker.Options{ID: "employee", Concurrency: credits, Grace: 5 * time.Second})
	var mu sync.Mutex
	for _, q := range queues {
		worker.Handle(w, q, func(ctx context.Context, run carillon.Run, _ []byte) error {
			a := attemptOf(&run, "employee")
			record.Attempt(a)
			place := book.Saw(streamed(&a))
			mu.Lock()
			length, bad, long := d.between(0, 100*time.Millisecond), d.chance(6), d.chance(20)
			mu.Unlock()
			select {
			case <-good:
				length, bad, long = 0, false, false
			default:
			}
			if long {
				length += workerLease + workerLease/2
			}
			if pause(ctx, length) != nil {
				return context.Cause(ctx)
			}
			kind, err := checker.Success, error(nil)
			if bad {
				kind, err = checker.Failure, errPaper
			}
			record.Sent(checker.Result{RunID: run.ID, Token: run.Token, Number: run.Attempt, Kind: kind})
			book.Answered(place, answerOfKind(kind), time.Now())
			return err
		})
	}
	return w
}
