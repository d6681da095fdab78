package worker_test

import (
	"context"
	"strings"
	"testing"

	"strconv"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/worker"
)

func TestFaultsOfHandlers(t *testing.T) {
	ok := func(context.Context, carillon.Run, carillon.Data) error { return nil }
	for want, add := range map[string]func(w *worker.Worker){
		"there is no handler":    func(*worker.Worker) {},
		"it has two handlers":    func(w *worker.Worker) { worker.Handle(w, "q", ok); worker.Handle(w, "q", ok) },
		"its handler is nil":     func(w *worker.Worker) { worker.Handle[int](w, "q", nil) },
		"0 runs at once are not": func(w *worker.Worker) { worker.Handle(w, "q", ok, worker.Limit(0)) },
	} {
		w := worker.New(newServer(), worker.Options{})
		add(w)
		if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "before") {
			t.Errorf("a second Run: %v", err)
		}
	}
}

// benchServer is a server that has always another run, and acknowledges at once.
type benchServer struct {
	left, open int
	given      int
	out        chan carillon.WorkResponse
	done       chan struct{}
}

// Connect implements carillon.Work.
func (s *benchServer) Connect(context.Context, carillon.Hello) (carillon.Session, error) {
	return s, nil
}

// Send implements carillon.Session.
func (s *benchServer) Send(_ context.Context, req carillon.WorkRequest) error {
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
func (s *benchServer) Receive(ctx context.Context) (carillon.WorkResponse, error) {
	select {
	case m := <-s.out:
		return m, nil
	case <-ctx.Done():
		return carillon.WorkResponse{}, ctx.Err()
	}
}

// Close implements carillon.Session.
func (s *benchServer) Close() error { return nil }

// BenchmarkRun is what the SDK adds to a run.
func BenchmarkRun(b *testing.B) {
	s := &benchServer{left: b.N, open: b.N, out: make(chan carillon.WorkResponse, 1<<16),
		done: make(chan struct{})}
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
