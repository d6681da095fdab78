package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
	"github.com/carillonhq/carillon/server/internal/daprapi"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
	sidecars "github.com/carillonhq/carillon/server/internal/dispatch/sidecar"
	"github.com/carillonhq/carillon/server/internal/permitrecord"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
)

// watchStream is a stream of WatchJobs between a sidecar and a life of a node. Messages cross it as bytes.
// Nothing else of gRPC is simulated: its goroutines would take their turns in no order.
type watchStream struct {
	sidecar *sidecar
	life    *life
	proc    *daprd
	actor   int
	ctx     context.Context
	end     context.CancelFunc // as a broken connection does
	over    chan struct{}      // closed when the node is done with it
	up      chan []byte        // to the node
	down    chan []byte        // to the sidecar

	mu      sync.Mutex
	joined  time.Time
	hosts   []string
	handed  map[uint64]*handed // not answered
	results map[string][]int   // token → places of its results in the history
}

var _ grpc.BidiStreamingServer[pb.WatchJobsRequest, pb.WatchJobsResponse] = (*watchStream)(nil)

// handed is a run that the node has handed to a stream.
type handed struct {
	id     uint64
	run    *carillon.Run
	target carillon.DaprTarget
}

// window is how many messages lie in buffers between a node and a sidecar that does not read.
const window = 2

func newWatchStream(k *sidecar, l *life, p *daprd, actor int) *watchStream {
	s := &watchStream{sidecar: k, life: l, proc: p, actor: actor, over: make(chan struct{}),
		up: make(chan []byte, 1024), down: make(chan []byte, window), handed: map[uint64]*handed{},
		results: map[string][]int{}}
	s.ctx, s.end = context.WithCancel(context.Background())
	return s
}

// serve is the node's end of the stream, until it ends.
func (s *watchStream) serve() {
	service := daprapi.New(s.life.scheduler(), s.connect, daprapi.Options{Now: s.life.node.now})
	_ = service.WatchJobs(s) // whatever the reason, the sidecar comes back
	s.end()
	s.leave()
	close(s.over)
}

// connect opens the session at the node.
func (s *watchStream) connect(h sidecars.Hello) (*sidecars.Session, error) {
	session, err := sidecars.Open(s.life.hub, s.life.engine, h, sidecars.Options{Handed: s.note})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.joined = time.Now()
	for _, t := range s.proc.types {
		s.hosts = append(s.hosts, queueOf(&carillon.DaprTarget{ActorType: t}))
	}
	s.hosts = append(s.hosts, queueOf(&carillon.DaprTarget{AppID: h.AppID}))
	s.mu.Unlock()
	s.life.attendance.come(s, session)
	return session, nil
}

// note writes down a run that is being handed to the sidecar.
func (s *watchStream) note(d sidecars.Delivery) {
	s.mu.Lock()
	s.handed[d.ID] = &handed{d.ID, d.Run, *d.Target}
	if !slices.Contains(s.hosts, queueOf(d.Target)) {
		s.sidecar.w.fail(fmt.Errorf("%s got run %s of %s, and watches for %v", s.sidecar.plan.Name, d.Run.ID, d.Run.Job,
			s.hosts))
	}
	s.mu.Unlock()
	s.sidecar.w.rec.Attempt(s.sidecar.attemptTo(s, d.Run))
}

// leave writes down what the stream held when it ended.
func (s *watchStream) leave() {
	s.mu.Lock()
	var ids []uint64
	for id := range s.handed {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		r := s.handed[id].run
		s.sidecar.w.rec.Sent(checker.Result{RunID: r.ID, Token: r.Token, Number: r.Attempt,
			Kind: checker.LostWorker})
	}
	clear(s.handed)
	s.mu.Unlock()
	s.life.attendance.goes(s)
}

// say sends a message to the node.
func (s *watchStream) say(m *pb.WatchJobsRequest) {
	b, err := encoding.Marshal(m)
	s.sidecar.w.fail(err)
	select {
	case s.up <- b:
	default:
		s.sidecar.w.fail(fmt.Errorf("%s: the stream is full", s.sidecar.plan.Name))
	}
}

// result says how a run ended.
func (s *watchStream) result(d *handed, how pb.WatchJobsRequestResultStatus) {
	kind := checker.Success
	if how == pb.WatchJobsRequestResultStatus_FAILED {
		kind = checker.Failure
	}
	s.mu.Lock()
	if s.handed[d.id] == nil { // the stream has ended
		s.mu.Unlock()
		return
	}
	delete(s.handed, d.id)
	i := s.sidecar.w.rec.Sent(checker.Result{RunID: d.run.ID, Token: d.run.Token, Number: d.run.Attempt,
		Kind: kind})
	s.results[d.run.Token] = append(s.results[d.run.Token], i)
	s.mu.Unlock()
	s.say(resultMessage(d.id, how))
}

// again says once more that a run has ended, which ends the stream.
func (s *watchStream) again(d *handed) {
	s.say(resultMessage(d.id, pb.WatchJobsRequestResultStatus_SUCCESS))
}

// forge says that a run has ended that the stream never had, which ends the stream.
func (s *watchStream) forge(d *handed) {
	s.say(resultMessage(d.id+1<<32, pb.WatchJobsRequestResultStatus_SUCCESS))
}

func resultMessage(id uint64, how pb.WatchJobsRequestResultStatus) *pb.WatchJobsRequest {
	return &pb.WatchJobsRequest{WatchJobRequestType: &pb.WatchJobsRequest_Result{
		Result: &pb.WatchJobsRequestResult{Id: id, Status: how}}}
}

// take is the next run that comes to the sidecar, nil if the stream has ended.
func (s *watchStream) take() *handed {
	var m pb.WatchJobsResponse
	select {
	case b := <-s.down:
		s.sidecar.w.fail(proto.Unmarshal(b, &m))
	case <-s.ctx.Done():
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.handed[m.GetId()]
	if d == nil { // the stream has ended meanwhile
		if s.ctx.Err() == nil {
			s.sidecar.w.fail(fmt.Errorf("%s: run %d came, and nobody sent it", s.sidecar.plan.Name, m.GetId()))
		}
		return nil
	}
	key := keyOf(m.GetMetadata(), m.GetName())
	if key.Name != d.run.Job || key.Namespace != d.run.Namespace ||
		string(m.GetData().GetValue()) != payloadOf(&d.run.Data) ||
		m.GetMetadata().GetConcurrencyKey() != d.target.ConcurrencyKey {
		s.sidecar.w.fail(fmt.Errorf("%s: run %s of %s came as %v", s.sidecar.plan.Name, d.run.ID, d.run.Job, &m))
	}
	return d
}

// told notes what became of a result.
func (s *watchStream) told(token string, v checker.ResultVerdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.results[token] {
		s.sidecar.w.rec.Told(i, v)
	}
}

// Send is for [grpc.BidiStreamingServer].
func (s *watchStream) Send(m *pb.WatchJobsResponse) error {
	s.pass()
	b, err := encoding.Marshal(m)
	if err != nil {
		return err
	}
	select {
	case s.down <- b:
		return nil
	case <-s.ctx.Done():
		return status.Error(codes.Canceled, "sim: the stream has ended")
	}
}

// Recv is for [grpc.BidiStreamingServer].
func (s *watchStream) Recv() (*pb.WatchJobsRequest, error) {
	select {
	case b := <-s.up:
		s.pass()
		m := new(pb.WatchJobsRequest)
		return m, proto.Unmarshal(b, m)
	case <-s.ctx.Done():
		s.pass()
		return nil, status.Error(codes.Canceled, "sim: the stream has ended")
	}
}

// pass returns when the node does not stand still.
func (s *watchStream) pass() {
	for s.life.node.gate.closed() != nil {
		s.life.node.gate.wait()
		pause(s.actor, 0)
	}
}

// Context is for [grpc.ServerStream].
func (s *watchStream) Context() context.Context { return s.ctx }

// SendHeader is for [grpc.ServerStream].
func (s *watchStream) SendHeader(metadata.MD) error { return s.ctx.Err() }

// SetHeader is for [grpc.ServerStream].
func (s *watchStream) SetHeader(metadata.MD) error { return errors.ErrUnsupported }

// SetTrailer is for [grpc.ServerStream].
func (s *watchStream) SetTrailer(metadata.MD) {}

// SendMsg is for [grpc.ServerStream].
func (s *watchStream) SendMsg(any) error { return errors.ErrUnsupported }

// RecvMsg is for [grpc.ServerStream].
func (s *watchStream) RecvMsg(any) error { return errors.ErrUnsupported }

// attendance is which sidecars a life of a node has, and what nobody serves there.
type attendance struct {
	w    *world
	node string

	mu       sync.Mutex
	over     bool
	sessions map[delivery.Reporter]*watchStream
	count    map[string]int       // streams by namespace and queue
	absent   map[string]time.Time // since when there is none
}

func newAttendance(n *node) *attendance {
	a := &attendance{w: n.w, node: n.name(), sessions: map[delivery.Reporter]*watchStream{},
		count: map[string]int{}, absent: map[string]time.Time{}}
	for _, q := range n.w.plan.daprQueues() {
		a.absent[q] = time.Now()
	}
	return a
}

// come notes that a sidecar has joined.
func (a *attendance) come(s *watchStream, session delivery.Reporter) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sessions[session] = s
	for _, q := range s.hosts {
		q = s.sidecar.plan.Namespace + "/" + q
		if a.count[q]++; a.count[q] == 1 {
			a.present(q)
		}
	}
}

// present notes that a queue is served from now on.
func (a *attendance) present(q string) {
	if since, ok := a.absent[q]; ok {
		delete(a.absent, q)
		a.w.rec.Fault(checker.Fault{Kind: checker.Unserved, Targets: []string{q}, From: since, To: time.Now()})
	}
}

// goes notes that a sidecar has left.
func (a *attendance) goes(s *watchStream) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := s.sidecar.plan
	for _, q := range s.hosts {
		q = p.Namespace + "/" + q
		if a.count[q]--; a.count[q] == 0 && !a.over {
			a.absent[q] = time.Now()
		}
	}
	if s.joined.IsZero() {
		return
	}
	for _, l := range p.Limits {
		home := permitrecord.HomeOf(delivery.ActorLimit(p.Namespace, l.Type, l.Key), a.w.plan.Partitions)
		a.w.rec.Gate(checker.Gate{Namespace: p.Namespace, Queue: queueOf(&carillon.DaprTarget{ActorType: l.Type}),
			Key: l.Key, Most: l.Most, Node: a.node, Home: home, From: s.joined, To: time.Now()})
	}
}

// end notes that the node is gone, and its connections with it.
func (a *attendance) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	for _, q := range a.w.plan.daprQueues() {
		a.present(q)
	}
	for _, s := range a.sessions {
		s.end()
	}
}

// of is the stream of a session.
func (a *attendance) of(session delivery.Reporter) *watchStream {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sessions[session]
}

// listener writes down what sidecars are never told: what became of their results.
type listener struct {
	dispatch.Sink
	attendance *attendance
}

// Reports is for [dispatch.Sink].
func (l listener) Reports(rs []delivery.Report) {
	for i := range rs {
		if s := l.attendance.of(rs[i].From); s != nil {
			rs[i].From = heard{rs[i].From, s}
		}
	}
	l.Sink.Reports(rs)
}

// heard passes an answer on and writes it down.
type heard struct {
	delivery.Reporter
	stream *watchStream
}

// Accepted is for [delivery.Reporter].
func (h heard) Accepted(token string) {
	h.stream.told(token, checker.Acked)
	h.Reporter.Accepted(token)
}

// Stale is for [delivery.Reporter].
func (h heard) Stale(token string) {
	h.stream.told(token, checker.Stale)
	h.Reporter.Stale(token)
}
