package chaos

import (
	"context"
	"errors"
	"io"
	"math"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
	"github.com/carillonhq/carillon/server/internal/testing/deliveries"
)

// sidecar is a sidecar of Dapr with a stream to each node. It speaks the protocol alone: nothing of the
// product's clients is in it.
type sidecar struct {
	name  string
	app   string
	types []string
	ways  []string // addresses of the nodes
	good  <-chan struct{}
	book  *triggerBook

	mu   sync.Mutex
	dice dice
	life context.CancelCauseFunc // ends its process
	hung chan struct{}           // closed when it reads again; nil = it does
}

// triggerBook is the ledger of all sidecars.
type triggerBook struct {
	mu   sync.Mutex
	seen []*deliveries.Trigger
}

func (b *triggerBook) note(t deliveries.Trigger) *deliveries.Trigger {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = append(b.seen, &t)
	return &t
}

// change changes an entry.
func (b *triggerBook) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// all is what has been written down.
func (b *triggerBook) all() []deliveries.Trigger {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]deliveries.Trigger, len(b.seen))
	for i, t := range b.seen {
		out[i] = *t
	}
	return out
}

// run lives one life after the other until ctx ends.
func (s *sidecar) run(ctx context.Context) {
	for ctx.Err() == nil {
		life, end := context.WithCancelCause(ctx)
		s.mu.Lock()
		s.life = end
		s.mu.Unlock()
		var lines sync.WaitGroup
		for _, way := range s.ways {
			lines.Go(func() { s.line(life, way) })
		}
		lines.Wait()
		end(nil)
		_ = pause(ctx, 200*time.Millisecond) // it is to be started again
	}
}

// kill ends the process; it is started again.
func (s *sidecar) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life != nil {
		s.life(errors.New("killed"))
	}
}

// hang has the process stand still; what it returns lets it go on.
func (s *sidecar) hang() (wake func()) {
	hung := make(chan struct{})
	s.mu.Lock()
	s.hung = hung
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		s.hung = nil
		s.mu.Unlock()
		close(hung)
	}
}

// awake returns when the process does not stand still.
func (s *sidecar) awake(ctx context.Context) {
	s.mu.Lock()
	hung := s.hung
	s.mu.Unlock()
	if hung != nil {
		select {
		case <-hung:
		case <-ctx.Done():
		}
	}
}

// line watches one node again and again.
func (s *sidecar) line(ctx context.Context, way string) {
	for ctx.Err() == nil {
		s.watch(ctx, way)
		_ = pause(ctx, 100*time.Millisecond)
	}
}

// dialDapr connects to a node as a sidecar does.
func dialDapr(way string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:"+way, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)))
}

// watch is one stream.
func (s *sidecar) watch(ctx context.Context, way string) {
	conn, err := dialDapr(way)
	if err != nil {
		return
	}
	ctx, end := context.WithCancel(ctx)
	var work sync.WaitGroup
	var held []*deliveries.Trigger
	defer func() {
		end()
		_ = conn.Close() // it is of no more use
		work.Wait()
		at := time.Now()
		s.book.change(func() {
			for _, t := range held {
				t.Ended = at
			}
		})
	}()
	stream, err := pb.NewSchedulerClient(conn).WatchJobs(ctx)
	if err != nil {
		return
	}
	w := &watching{sidecar: s, stream: stream, end: end}
	if w.send(&pb.WatchJobsRequest{WatchJobRequestType: &pb.WatchJobsRequest_Initial{
		Initial: &pb.WatchJobsRequestInitial{AppId: s.app, Namespace: namespace, ActorTypes: s.types}}}) != nil {
		return
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return
		}
		s.awake(ctx)
		t := s.book.note(deliveries.Trigger{Job: keptName(m), Payload: string(m.GetData().GetValue()),
			Sidecar: s.name, At: time.Now()})
		held = append(held, t)
		work.Go(func() { w.treat(ctx, m.GetId(), t) })
	}
}

// keptName is the name that the node keeps a job under.
func keptName(m *pb.WatchJobsResponse) string {
	if a := m.GetMetadata().GetTarget().GetActor(); a != nil {
		return "dapr/actor/" + a.GetType() + "/" + a.GetId() + "/" + m.GetName()
	}
	return "dapr/app/" + m.GetMetadata().GetAppId() + "/" + m.GetName()
}

// watching is a stream that takes results from several goroutines.
type watching struct {
	sidecar *sidecar
	stream  grpc.BidiStreamingClient[pb.WatchJobsRequest, pb.WatchJobsResponse]
	end     func()
	mu      sync.Mutex
}

func (w *watching) send(m *pb.WatchJobsRequest) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// treat goes through a run, well or badly.
func (w *watching) treat(ctx context.Context, id uint64, t *deliveries.Trigger) {
	s := w.sidecar
	s.mu.Lock()
	x, takes, long := s.dice.IntN(100), s.dice.between(0, 30*time.Millisecond),
		s.dice.between(200*time.Millisecond, 3*time.Second)
	s.mu.Unlock()
	select {
	case <-s.good:
		x = 100
	default:
	}
	if x < 10 {
		takes = long
	}
	if pause(ctx, takes) != nil {
		return
	}
	s.awake(ctx)
	status, ok := pb.WatchJobsRequestResultStatus_SUCCESS, true
	switch {
	case x >= 12 && x < 15: // it never answers, until its stream ends
		if pause(ctx, long) == nil {
			w.end()
		}
		return
	case x >= 15 && x < 27:
		status, ok = pb.WatchJobsRequestResultStatus_FAILED, false
	}
	s.book.change(func() { t.OK, t.Answered = ok, time.Now() })
	_ = w.send(&pb.WatchJobsRequest{WatchJobRequestType: &pb.WatchJobsRequest_Result{
		Result: &pb.WatchJobsRequestResult{Id: id, Status: status}}}) // if the stream is over its end is noted
}
