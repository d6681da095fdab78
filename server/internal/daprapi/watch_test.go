package daprapi

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
	"github.com/carillonhq/carillon/server/internal/daprapi/daprmetrics"
	"github.com/carillonhq/carillon/server/internal/dispatch/sidecar"
	"github.com/carillonhq/carillon/server/internal/dispatch/stream"
)

// lateStream is the stream of a sidecar that reads again just when it has lost its stream: one message goes
// out, the next finds the stream ended.
type lateStream struct {
	grpc.ServerStream
	ctx   context.Context
	late  time.Duration
	first sync.Once
	met   chan struct{} // closed when the initial message was taken
}

func (s *lateStream) Context() context.Context { return s.ctx }

func (s *lateStream) SendHeader(_ metadata.MD) error { return nil }

func (s *lateStream) Send(*pb.WatchJobsResponse) error {
	err := errors.New("the stream is over")
	s.first.Do(func() {
		<-time.After(s.late)
		err = nil
	})
	return err
}

func (s *lateStream) Recv() (*pb.WatchJobsRequest, error) {
	select {
	case <-s.met:
		<-s.ctx.Done()
		return nil, s.ctx.Err()
	default:
		close(s.met)
	}
	in := &pb.WatchJobsRequestInitial{AppId: "app", Namespace: "default"}
	return &pb.WatchJobsRequest{WatchJobRequestType: &pb.WatchJobsRequest_Initial{Initial: in}}, nil
}

// TestSidecarThatReadsTooLate: what goes on after a stream was taken away harms nobody.
func TestSidecarThatReadsTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, "memory:", Options{})
		for _, name := range []string{"a", "b"} {
			r.put(name, appOf("app"), soon())
		}
		synctest.Wait()
		const stall = 10 * time.Second
		connect := func(h sidecar.Hello) (*sidecar.Session, error) {
			return sidecar.Open(r.node.Hub(), r.node, h, sidecar.Options{Bounds: stream.Bounds{Stall: time.Hour}})
		}
		s := New(r.jobs, connect, Options{StallTimeout: stall})
		ctx, cancel := context.WithCancel(t.Context())
		if err := s.WatchJobs(&lateStream{ctx: ctx, late: stall + time.Second,
			met: make(chan struct{})}); err == nil {
			t.Error("the stream ended with no error")
		}
		cancel()
		<-time.After(time.Minute)
		r.stop()
	})
}

// TestResultAfterTheEnd: a result that comes while a stream ends counts once, as undelivered, not with the
// latency of the beginning of time.
func TestResultAfterTheEnd(t *testing.T) {
	c := &counts{}
	w := &watch{service: New(nil, nil, Options{Metrics: c}),
		held: map[uint64]handed{1: {daprmetrics.KindJob, time.Now()}}}
	w.forget()
	w.count(1, true)
	if len(c.seen) != 1 || c.seen["jobs_undelivered_total job"] != 1 {
		t.Errorf("counted %v", c.seen)
	}
}

// TestLeavingNodeWaitsForNoIntroduction: a stream on which nothing was ever said does not hold a node up.
func TestLeavingNodeWaitsForNoIntroduction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, "memory:", Options{})
		stream, err := r.client.WatchJobs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		begin := time.Now()
		r.stop()
		sameTime(t, "the end", begin, 0)
		if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("the stream ended with %v", err)
		}
	})
}
