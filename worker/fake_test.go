package worker_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/worker"
)

// server is a Work that a test plays by hand, in a bubble.
type server struct {
	connects chan *session

	mu      sync.Mutex
	refusal error // of the next Connects
	greeted []carillon.Hello
}

func newServer() *server { return &server{connects: make(chan *session, 16)} }

// Connect implements carillon.Work.
func (s *server) Connect(_ context.Context, hello carillon.Hello) (carillon.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.greeted = append(s.greeted, hello)
	if s.refusal != nil {
		return nil, s.refusal
	}
	n := &session{requests: make(chan carillon.WorkRequest, 1024),
		responses: make(chan carillon.WorkResponse, 1024), over: make(chan struct{})}
	s.connects <- n
	return n, nil
}

// refuse says what becomes of the next Connects; nil = they are taken.
func (s *server) refuse(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal = err
}

// hellos are those who have come so far.
func (s *server) hellos() []carillon.Hello {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.greeted
}

// session is what the server sees of a worker.
type session struct {
	requests  chan carillon.WorkRequest
	responses chan carillon.WorkResponse
	over      chan struct{}
	closed    atomic.Bool // by the worker
}

// Send implements carillon.Session.
func (s *session) Send(_ context.Context, req carillon.WorkRequest) error {
	select {
	case <-s.over:
		return carillon.Errorf(carillon.Unavailable, "", "lost")
	default:
	}
	s.requests <- req
	return nil
}

// Receive implements carillon.Session.
func (s *session) Receive(ctx context.Context) (carillon.WorkResponse, error) {
	select {
	case r := <-s.responses:
		return r, nil
	case <-s.over:
	case <-ctx.Done():
	}
	return carillon.WorkResponse{}, carillon.Errorf(carillon.Unavailable, "", "lost")
}

// Close implements carillon.Session.
func (s *session) Close() error {
	s.closed.Store(true)
	s.breakOff()
	return nil
}

// breakOff ends the session as a broken connection does.
func (s *session) breakOff() {
	select {
	case <-s.over:
	default:
		close(s.over)
	}
}

// sent returns everything that the worker has sent since the last call, in one; the bubble is quiet.
func (s *session) sent() carillon.WorkRequest {
	synctest.Wait()
	var all carillon.WorkRequest
	for {
		select {
		case r := <-s.requests:
			all.Credits = append(all.Credits, r.Credits...)
			all.Results = append(all.Results, r.Results...)
			all.Heartbeats = append(all.Heartbeats, r.Heartbeats...)
			all.Goodbye = all.Goodbye || r.Goodbye
			all.Pong = all.Pong || r.Pong
		default:
			return all
		}
	}
}

// send sends something to the worker and lets it act on it.
func (s *session) send(r carillon.WorkResponse) {
	s.responses <- r
	synctest.Wait()
}

// deliver hands out runs.
func (s *session) deliver(runs ...carillon.Run) { s.send(carillon.WorkResponse{Runs: runs}) }

// ack acknowledges results.
func (s *session) ack(results []carillon.Result) {
	var tokens []string
	for _, r := range results {
		tokens = append(tokens, r.Token)
	}
	s.send(carillon.WorkResponse{Acks: tokens})
}

// next is the next session that the worker opens; it has begun to use it.
func (s *server) next() *session {
	n := <-s.connects
	synctest.Wait()
	return n
}

// pass lets time pass in the bubble, and everything happen that it brings.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// start runs the worker; leave ends its context, and left is what Run returned, once it has.
func start(t *testing.T, w *worker.Worker) (leave func(), left chan error) {
	ctx, cancel := context.WithCancel(t.Context())
	left = make(chan error, 1)
	go func() { left <- w.Run(ctx) }()
	return cancel, left
}

// grants sums the credits of a queue.
func grants(r carillon.WorkRequest, queue string) int {
	n := 0
	for _, c := range r.Credits {
		if c.Queue == queue {
			n += c.N
		}
	}
	return n
}

// run is a run of the queue "q".
func run(token string) carillon.Run {
	return carillon.Run{ID: "run of " + token, Token: token, Queue: "q", Job: "j", Attempt: 1,
		Data: carillon.JSON(map[string]int{"n": 7})}
}

// bubble runs a test in which time costs nothing.
func bubble(t *testing.T, test func(t *testing.T, s *server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newServer()) })
}

// leaveAndWait lets an idle worker leave.
func leaveAndWait(t *testing.T, s *server, leave func(), left chan error) {
	t.Helper()
	leave()
	s.next()
	if err := <-left; err != nil {
		t.Errorf("run: %v", err)
	}
}
