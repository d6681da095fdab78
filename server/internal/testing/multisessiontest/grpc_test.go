package multisessiontest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/dispatch"
	"github.com/carillonhq/carillon/server/internal/grpcapi"
	"github.com/carillonhq/carillon/server/internal/server"
)

// workOnly is a node's scheduler as far as workers need it.
type workOnly struct {
	carillon.Scheduler
	work carillon.Work
}

// Connect implements carillon.Work.
func (f workOnly) Connect(ctx context.Context, hello carillon.Hello) (carillon.Session, error) {
	return f.work.Connect(ctx, hello)
}

// serve listens for a node of the rig, at an address or any; stop ends it as a kill does.
func (w *rig) serve(address string) (at string, stop func()) {
	w.t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		w.t.Fatal(err)
	}
	at = l.Addr().String()
	w.start(at)
	w.mu.Lock()
	hub := w.nodes[at].hub
	w.mu.Unlock()
	relay := server.Relay{Work: hub, Reach: server.Reach}
	s := grpcapi.NewServer(grpcapi.NewService(workOnly{work: relay},
		grpcapi.Options{Logger: slog.New(slog.DiscardHandler)}))
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		s.Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // it had not begun
			w.t.Error(err)
		}
		w.kill(at)
	}
	w.t.Cleanup(stop)
	return at, stop
}

// TestOverGRPC: a worker of the SDK that knows one address is served by three nodes, whether it reaches all
// or is relayed, while one of them goes and comes again.
func TestOverGRPC(t *testing.T) {
	for name, options := range map[string][]client.Option{"direct": nil, "relayed": {client.WithOneAddress()}} {
		for _, concurrency := range []int{1, 20} {
			t.Run(fmt.Sprint(name, concurrency), func(t *testing.T) {
				w := newRig(t)
				first, _ := w.serve("127.0.0.1:0")
				second, _ := w.serve("127.0.0.1:0")
				third, stopThird := w.serve("127.0.0.1:0")
				c, err := client.Dial(first, options...)
				if err != nil {
					t.Fatal(err)
				}
				b := &sleeper{took: func() time.Duration { return time.Millisecond }}
				w.put(first, 0, 50)
				w.put(second, 50, 200)
				w.put(third, 200, 250)
				stop := runWorker(t, c, concurrency, b.handle)
				w.mu.Lock()
				w.waiting++
				w.mu.Unlock()
				stopThird()
				w.put(second, 250, 300)
				w.serve(third)
				w.put(third, 300, 400)
				w.mu.Lock()
				if w.waiting--; w.waiting == 0 {
					close(w.all)
				}
				w.mu.Unlock()
				<-w.all
				stop()
				if int(b.most.Load()) > concurrency {
					t.Errorf("%d at once", b.most.Load())
				}
				if len(w.done) != 400 {
					t.Errorf("%d runs were done", len(w.done))
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestClientFindsAnotherNode: the one that it was told of has gone for good.
func TestClientFindsAnotherNode(t *testing.T) {
	w := newRig(t)
	first, stopFirst := w.serve("127.0.0.1:0")
	second, _ := w.serve("127.0.0.1:0")
	c, err := client.Dial(first)
	if err != nil {
		t.Fatal(err)
	}
	hello := carillon.Hello{Queues: []string{"q"}, WorkerID: "w"}
	s, err := c.Connect(t.Context(), hello)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := s.Receive(t.Context()); err != nil || len(r.Nodes) != 2 || r.Nodes[0] != first {
		t.Fatalf("%+v, %v", r, err)
	}
	credit := carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: 1}}}
	if err := s.Send(t.Context(), credit); err != nil {
		t.Fatal(err)
	}
	w.put(second, 0, 1)
	receiveRuns(t, s, 1) // so it is connected there
	stopFirst()
	again, err := c.Connect(t.Context(), hello)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []carillon.Session{s, again} {
		if err := s.Send(t.Context(), credit); err != nil {
			t.Fatal(err)
		}
	}
	w.put(second, 1, 3)
	receiveRuns(t, s, 1)
	receiveRuns(t, again, 1)
	shut(t, s)
	shut(t, again)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestRelayEndsWithItsNode: a worker that reaches one node only learns that it leaves, and its stream ends
// with it. That another leaves it does not notice.
func TestRelayEndsWithItsNode(t *testing.T) {
	w := newRig(t)
	first, _ := w.serve("127.0.0.1:0")
	second, _ := w.serve("127.0.0.1:0")
	c, err := client.Dial(first, client.WithOneAddress())
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Connect(t.Context(), carillon.Hello{Queues: []string{"q"}, WorkerID: "w"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(t.Context(), carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: 4}}}); err != nil {
		t.Fatal(err)
	}
	hubs := map[string]*dispatch.Hub{}
	for _, d := range w.living() {
		hubs[d.address] = d.hub
	}
	w.put(second, 0, 1)
	runs := receiveRuns(t, s, 1)
	if n := len(hubs[second].Workers()); n != 1 {
		t.Errorf("%d workers at the second: a relay goes in circles", n)
	}
	if err := hubs[second].Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.put(first, 1, 2)
	runs = append(runs, receiveRuns(t, s, 1)...)
	if err := s.Send(t.Context(), carillon.WorkRequest{Results: results(runs)}); err != nil {
		t.Fatal(err)
	}
	if err := hubs[first].Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	for {
		r, err := s.Receive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r.Drain {
			break
		}
	}
	if err := hubs[first].Close(); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := s.Receive(t.Context()); err != nil {
			break
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
