package worker_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/worker"
)

// tireless is a server that has always another run, and acknowledges at once.
type tireless struct {
	left, open int
	given      int
	out        chan carillon.WorkResponse
	done       chan struct{}
}

// Connect implements carillon.Work.
func (s *tireless) Connect(context.Context, carillon.Hello) (carillon.Session, error) { return s, nil }

// Send implements carillon.Session.
func (s *tireless) Send(_ context.Context, req carillon.WorkRequest) error {
	var msg carillon.WorkResponse
	for _, r := range req.Results {
		msg.Acks = append(msg.Acks, r.Token)
		if s.open--; s.open == 0 {
			close(s.done)
		}
	}
	for _, c := range req.Credits {
		for range min(c.N, s.left) {
			s.left--
			s.given++
			id := strconv.Itoa(s.given)
			msg.Runs = append(msg.Runs, carillon.Run{ID: id, Token: id, Queue: "q"})
		}
	}
	s.out <- msg
	return nil
}

// Receive implements carillon.Session.
func (s *tireless) Receive(ctx context.Context) (carillon.WorkResponse, error) {
	select {
	case m := <-s.out:
		return m, nil
	case <-ctx.Done():
		return carillon.WorkResponse{}, ctx.Err()
	}
}

// Close implements carillon.Session.
func (s *tireless) Close() error { return nil }

// BenchmarkRun is what the SDK adds to a run.
func BenchmarkRun(b *testing.B) {
	s := &tireless{left: b.N, open: b.N, out: make(chan carillon.WorkResponse, 1<<16), done: make(chan struct{})}
	w := worker.New(s, worker.Options{Concurrency: 1000, Grace: -1})
	worker.Handle(w, "q", func(context.Context, carillon.Run, carillon.Data) error { return nil })
	ctx, leave := context.WithCancel(b.Context())
	left := make(chan error, 1)
	b.ReportAllocs()
	b.ResetTimer()
	go func() { left <- w.Run(ctx) }()
	<-s.done
	b.StopTimer()
	leave()
}
