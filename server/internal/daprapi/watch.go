package daprapi

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/internal/daprapi/daprmetrics"
	"github.com/carillonhq/carillon/server/internal/daprrecord"
	"github.com/carillonhq/carillon/server/internal/dispatch/sidecar"
	"github.com/carillonhq/carillon/server/internal/grpcapi"
)

type watchStream = grpc.BidiStreamingServer[pb.WatchJobsRequest, pb.WatchJobsResponse]

// WatchJobs implements the rpc: it ties a sidecar's stream to a session. Three goroutines, none of which can
// hold up another sidecar: this one watches, one carries runs to the sidecar, one carries its results here.
// Whichever ends first ends the session, and what the sidecar still held is delivered elsewhere.
func (s *Service) WatchJobs(stream watchStream) error {
	hello, err := s.introduction(stream)
	if err != nil {
		return s.toStatus(stream.Context(), "WatchJobs", err)
	}
	session, err := s.connect(hello)
	if err != nil {
		return s.toStatus(stream.Context(), "WatchJobs", err)
	}
	defer func() { _ = session.Close() }()
	defer s.streams.add(session, where(stream.Context()))()
	if err := stream.SendHeader(nil); err != nil { // so that the sidecar can know that it was accepted
		return err
	}
	s.options.Metrics.Sidecars(1)
	defer s.options.Metrics.Sidecars(-1)

	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	w := &watch{service: s, stream: stream, session: session, held: map[uint64]handed{},
		stall: grpcapi.NewStall(s.options.StallTimeout)}
	defer w.stall.End()
	defer w.forget()
	read, written := make(chan error, 1), make(chan error, 1)
	go func() { read <- grpcapi.Safely(w.read) }()
	go func() { written <- grpcapi.Safely(func() error { return w.write(ctx) }) }()
	select {
	case err = <-read:
	case err = <-written:
	case <-w.stall.Fired:
		s.options.Metrics.Count(daprmetrics.SidecarErrors, daprmetrics.ErrorSend)
		err = carillon.Errorf(carillon.Unavailable, "", "the sidecar has not read its stream for %v",
			s.options.StallTimeout)
	}
	return s.toStatus(stream.Context(), "WatchJobs", err)
}

// introduction is what a sidecar says of itself in its first message.
func (s *Service) introduction(stream watchStream) (sidecar.Hello, error) {
	m, err := s.first(stream)
	if errors.Is(err, io.EOF) {
		return sidecar.Hello{}, refuse("initial", "the stream ended before it came")
	}
	if err != nil {
		return sidecar.Hello{}, err
	}
	in := m.GetInitial()
	if in == nil {
		return sidecar.Hello{}, refuse("initial", "it must be in the first message")
	}
	if err := s.claim(stream.Context(), "WatchJobs", in.GetAppId(), access.Named{Message: m,
		Namespace: in.GetNamespace(), Resource: in.GetAppId()}); err != nil {
		return sidecar.Hello{}, err
	}
	hello := sidecar.Hello{Namespace: in.GetNamespace(), AppID: in.GetAppId(),
		Limits: limitsOf(in.GetConcurrencyLimits())}
	jobs, actors, err := accepted(in.GetAcceptJobTypes())
	if err != nil {
		return sidecar.Hello{}, err
	}
	hello.Jobs = jobs
	if actors {
		hello.ActorTypes = in.GetActorTypes()
	}
	return hello, nil
}

// first is the first message of a stream, unless the node leaves before it comes. What waits for it ends with
// the stream.
func (s *Service) first(stream watchStream) (*pb.WatchJobsRequest, error) {
	var m *pb.WatchJobsRequest
	came := make(chan error, 1)
	go func() {
		came <- grpcapi.Safely(func() (err error) {
			m, err = stream.Recv()
			return err
		})
	}()
	select {
	case err := <-came:
		return m, err
	case <-s.left:
		return nil, leaving()
	}
}

// accepted is which kinds of jobs a sidecar takes; none named is all.
func accepted(types []pb.JobTargetType) (jobs, actors bool, err error) {
	if len(types) == 0 {
		return true, true, nil
	}
	for _, t := range types {
		var kind *bool
		switch t {
		case pb.JobTargetType_JOB_TARGET_TYPE_JOB:
			kind = &jobs
		case pb.JobTargetType_JOB_TARGET_TYPE_ACTOR_REMINDER:
			kind = &actors
		default:
			return false, false, refuse("initial.accept_job_types",
				"%d is unknown; 0 is jobs and 1 is actor reminders", int32(t))
		}
		if *kind {
			return false, false, refuse("initial.accept_job_types", "%v is there twice", t)
		}
		*kind = true
	}
	return jobs, actors, nil
}

// limitsOf are the limits that count: on an actor type, and with a number.
func limitsOf(limits []*pb.ConcurrencyLimit) []sidecar.Limit {
	var all []sidecar.Limit
	for _, l := range limits {
		if l.GetMaxConcurrent() <= 0 || l.GetActor() == nil || l.Name != nil && l.GetName() == "" {
			continue
		}
		all = append(all, sidecar.Limit{ActorType: l.GetActor().GetType(), Key: l.GetName(),
			Most: int(l.GetMaxConcurrent())})
	}
	return all
}

// watch is one sidecar's stream and session.
type watch struct {
	service *Service
	stream  watchStream
	session *sidecar.Session
	stall   *grpcapi.Stall

	mu   sync.Mutex
	held map[uint64]handed // for the metrics
}

// handed is a run that was handed to the sidecar.
type handed struct {
	kind string
	at   time.Time
}

// write carries runs to the sidecar until the session ends.
func (w *watch) write(ctx context.Context) error {
	defer w.stall.End()
	for {
		runs, err := w.session.Receive(ctx)
		if err != nil {
			return err
		}
		w.note(runs)
		for i := range runs {
			w.stall.Begin()
			if err := w.stream.Send(response(&runs[i])); err != nil {
				w.service.options.Metrics.Count(daprmetrics.SidecarErrors, daprmetrics.ErrorSend)
				return err
			}
		}
		w.stall.End()
	}
}

// response is a run as the sidecar gets it.
func response(d *sidecar.Delivery) *pb.WatchJobsResponse {
	return &pb.WatchJobsResponse{
		Name: daprrecord.NameOf(d.Run.Job), Id: d.ID, Data: daprrecord.AnyOf(d.Run.Data),
		Metadata: daprrecord.MetadataOf(d.Run.Namespace, d.Target),
	}
}

// read carries results to the session until the sidecar closes its side or says something that it must not.
func (w *watch) read() error {
	for {
		m, err := w.stream.Recv()
		if errors.Is(err, io.EOF) {
			return status.Error(codes.Canceled, "the sidecar has closed its side of the stream")
		}
		if err == nil {
			err = w.result(m.GetResult())
		}
		if err != nil {
			if w.stream.Context().Err() == nil {
				w.service.options.Metrics.Count(daprmetrics.SidecarErrors, daprmetrics.ErrorRecv)
			}
			return err
		}
	}
}

// result takes one result. What is wrong with one ends the stream as Dapr's scheduler ends it, with the code
// Canceled.
func (w *watch) result(r *pb.WatchJobsRequestResult) error {
	if r == nil {
		return status.Error(codes.Canceled, "result: it must be in every message after the first")
	}
	ok := r.GetStatus() == pb.WatchJobsRequestResultStatus_SUCCESS
	if !ok && r.GetStatus() != pb.WatchJobsRequestResultStatus_FAILED {
		return status.Errorf(codes.Canceled, "result.status: %d is unknown; 0 is success and 1 is failure",
			int32(r.GetStatus()))
	}
	message := ""
	if !ok {
		message = "the sidecar reported a failure"
	}
	err := w.session.Result(r.GetId(), ok, message)
	if errors.Is(err, carillon.InvalidArgument) {
		return status.Errorf(codes.Canceled,
			"result.id: %d is no run of this stream that waits for a result", r.GetId())
	}
	if err == nil {
		w.count(r.GetId(), ok)
	}
	return err
}

// note keeps in mind what is being handed over.
func (w *watch) note(runs []sidecar.Delivery) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range runs {
		w.held[runs[i].ID] = handed{kindOf(runs[i].Target.ActorType != ""), now}
	}
}

// count counts how a run ended.
func (w *watch) count(id uint64, ok bool) {
	w.mu.Lock()
	h, found := w.held[id]
	delete(w.held, id)
	w.mu.Unlock()
	if !found {
		return // the stream has ended, and it was counted as undelivered
	}
	outcome := daprmetrics.Failed
	if ok {
		outcome = daprmetrics.Triggered
	}
	w.service.options.Metrics.Count(outcome, h.kind)
	w.service.options.Metrics.Took(h.kind, time.Since(h.at))
}

// forget counts what the sidecar held when its stream ended.
func (w *watch) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.held {
		w.service.options.Metrics.Count(daprmetrics.Undelivered, h.kind)
	}
	w.held = map[uint64]handed{}
}
