package clienttest_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/server/internal/grpcapi"
)

// breaking is a service of events whose streams break off: each sends one event after the position that it
// was asked for, up to the last.
type breaking struct {
	pb.UnimplementedEventServiceServer
	mu    sync.Mutex
	asked []string
	refusals
}

// refusals are what a service answers instead, once nothing more is to be told.
type refusals struct {
	last string
	err  error
}

// Watch implements the rpc.
func (b *breaking) Watch(m *pb.WatchRequest, s grpc.ServerStreamingServer[pb.WatchResponse]) error {
	b.mu.Lock()
	b.asked = append(b.asked, m.GetPosition())
	b.mu.Unlock()
	if m.GetPosition() == b.last {
		return b.err
	}
	next := m.GetPosition() + "x"
	if err := s.Send(&pb.WatchResponse{Events: []*pb.Event{{Id: next}}, Position: next}); err != nil {
		return err
	}
	return grpcapi.ToStatus(carillon.Errorf(carillon.Unavailable, "", "this node is leaving"))
}

// watchAt serves the events until the test ends.
func watchAt(t *testing.T, b *breaking) *wire {
	t.Helper()
	w, s := newWire(), grpc.NewServer()
	pb.RegisterEventServiceServer(s, b)
	served := make(chan error, 1)
	go func() { served <- s.Serve(w) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return w
}

func TestAWatchGoesOnWhereItBrokeOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := carillon.Errorf(carillon.FailedPrecondition, "position", "gone")
		b := &breaking{refusals: refusals{"xxx", grpcapi.ToStatus(gone)}}
		c := watchAt(t, b).dial(t)
		var got []string
		for e, err := range c.Events(t.Context(), carillon.WatchQuery{}) {
			if err != nil {
				if !errors.Is(err, carillon.FailedPrecondition) {
					t.Errorf("it ended with %v", err)
				}
				break
			}
			got = append(got, e.ID)
		}
		if want := []string{"x", "xx", "xxx"}; !slices.Equal(got, want) {
			t.Errorf("told %q", got)
		}
		if want := []string{"", "x", "xx", "xxx"}; !slices.Equal(b.asked, want) {
			t.Errorf("asked from %q", b.asked)
		}
		enough := errors.New("enough")
		err := c.Watch(t.Context(), carillon.WatchQuery{}, func(carillon.EventBatch) error { return enough })
		if !errors.Is(err, enough) {
			t.Errorf("after an error of its caller it ended with %v", err)
		}
		for e, err := range c.Events(t.Context(), carillon.WatchQuery{}) {
			if err != nil || e.ID != "x" {
				t.Errorf("the first of another watch is %+v, %v", e, err)
			}
			break
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestAWatchNeedsANodeAtFirst within a few seconds, and later waits for one.
func TestAWatchNeedsANodeAtFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchAt(t, &breaking{refusals: refusals{last: "none"}})
		w.down.Store(true)
		c := w.dial(t)
		began := time.Now()
		err := c.Watch(t.Context(), carillon.WatchQuery{}, nil)
		if took := time.Since(began); !errors.Is(err, carillon.Unavailable) || took > 10*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		w.down.Store(false)
		<-time.After(2 * time.Minute) // longer than the connection pauses before it tries again
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		var last time.Time
		err = c.Watch(ctx, carillon.WatchQuery{}, func(carillon.EventBatch) error {
			last = time.Now()
			return nil
		})
		if !errors.Is(err, context.DeadlineExceeded) && carillon.KindOf(err) != carillon.DeadlineExceeded {
			t.Errorf("it ended with %v", err)
		}
		if time.Since(last) > time.Minute {
			t.Error("it did not go on")
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestAServerWithoutEventsSaysSo instead of being asked again and again.
func TestAServerWithoutEventsSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWire(), grpc.NewServer()
		served := make(chan error, 1)
		go func() { served <- s.Serve(w) }()
		c := w.dial(t)
		err := c.Watch(t.Context(), carillon.WatchQuery{}, nil)
		if !errors.Is(err, carillon.FailedPrecondition) {
			t.Errorf("%v", err)
		}
		err = c.Watch(t.Context(), carillon.WatchQuery{Prefix: "caf\xe9"}, nil)
		if !errors.Is(err, carillon.InvalidArgument) {
			t.Errorf("text that is not UTF-8: %v", err)
		}
		s.Stop()
		if err := errors.Join(c.Close(), <-served); err != nil {
			t.Error(err)
		}
	})
}
