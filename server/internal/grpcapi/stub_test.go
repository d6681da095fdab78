package grpcapi

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// stub is a Scheduler of which a test sets the methods that it needs; the others panic.
type stub struct {
	carillon.Scheduler
	putJob  func(context.Context, carillon.Job, carillon.PutOptions) (carillon.PutResult, error)
	putJobs func(context.Context, []carillon.Job) ([]carillon.PutResult, error)
	patch   func(context.Context, carillon.Key, carillon.Patch) (carillon.PutResult, error)
	getJob  func(context.Context, carillon.Key) (carillon.Job, error)
	pause   func(context.Context, carillon.Key, carillon.PauseOptions) (carillon.Job, error)
	skip    func(context.Context, carillon.Key) (carillon.SkipResult, error)
	start   func(context.Context, carillon.Key, carillon.BackfillSpec) (carillon.Backfill, error)
	putNS   func(context.Context, carillon.Namespace) (carillon.Namespace, error)
	connect func(context.Context, carillon.Hello) (carillon.Session, error)
	payload io.Reader // that is got, whatever is asked for
}

func (s *stub) PutPayload(_ context.Context, _ string, r io.Reader) (carillon.PayloadRef, error) {
	n, err := io.Copy(io.Discard, r)
	return carillon.PayloadRef{Size: n}, err
}

func (s *stub) GetPayload(context.Context, string, carillon.PayloadRef) (io.ReadCloser, error) {
	if r, ok := s.payload.(io.ReadCloser); ok {
		return r, nil
	}
	return io.NopCloser(s.payload), nil
}

func (s *stub) SetPaused(ctx context.Context, k carillon.Key, p carillon.PauseOptions) (carillon.Job, error) {
	return s.pause(ctx, k, p)
}

func (s *stub) SkipRun(ctx context.Context, k carillon.Key) (carillon.SkipResult, error) {
	return s.skip(ctx, k)
}

func (s *stub) StartBackfill(ctx context.Context, k carillon.Key,
	spec carillon.BackfillSpec) (carillon.Backfill, error) {
	return s.start(ctx, k, spec)
}

func (s *stub) PutNamespace(ctx context.Context, ns carillon.Namespace) (carillon.Namespace, error) {
	return s.putNS(ctx, ns)
}

func (s *stub) PutJob(ctx context.Context, j carillon.Job,
	opts ...carillon.PutOption) (carillon.PutResult, error) {
	return s.putJob(ctx, j, carillon.PutOptions{}.With(opts...))
}

func (s *stub) PutJobs(ctx context.Context, jobs []carillon.Job) ([]carillon.PutResult, error) {
	return s.putJobs(ctx, jobs)
}

func (s *stub) PatchJob(ctx context.Context, k carillon.Key, p carillon.Patch) (carillon.PutResult, error) {
	return s.patch(ctx, k, p)
}

func (s *stub) GetJob(ctx context.Context, k carillon.Key) (carillon.Job, error) {
	return s.getJob(ctx, k)
}

func (s *stub) Connect(ctx context.Context, h carillon.Hello) (carillon.Session, error) {
	return s.connect(ctx, h)
}

// stored answers every put as if it had been stored again.
func stored(_ context.Context, j carillon.Job, _ carillon.PutOptions) (carillon.PutResult, error) {
	j.Status = &carillon.JobStatus{Generation: 1}
	return carillon.PutResult{Job: j, Created: true, Changed: true}, nil
}

// session is a Session whose two directions are channels.
type session struct {
	sent   chan carillon.WorkRequest
	toSend chan carillon.WorkResponse // closed = the session is over
	closed chan struct{}
	once   sync.Once
}

func newSession() *session {
	return &session{sent: make(chan carillon.WorkRequest, 100), toSend: make(chan carillon.WorkResponse),
		closed: make(chan struct{})}
}

func (s *session) Send(ctx context.Context, r carillon.WorkRequest) error {
	select {
	case s.sent <- r:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *session) Receive(ctx context.Context) (carillon.WorkResponse, error) {
	select {
	case r, ok := <-s.toSend:
		if !ok {
			return r, io.EOF
		}
		return r, nil
	case <-s.closed:
		return carillon.WorkResponse{}, carillon.Errorf(carillon.Canceled, "", "the session is closed")
	case <-ctx.Done():
		return carillon.WorkResponse{}, ctx.Err()
	}
}

func (s *session) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// serve runs the face over s in memory and returns a connection to it.
func serve(t testing.TB, s carillon.Scheduler, o Options) *grpc.ClientConn {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	listener := bufconn.Listen(1 << 20)
	server := NewServer(NewService(s, o))
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:mem",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return listener.DialContext(ctx)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(conn.Close(), func() error { server.Stop(); return <-done }()); err != nil {
			t.Error(err)
		}
	})
	return conn
}

func dial(t testing.TB, s carillon.Scheduler, o Options) pb.SchedulerServiceClient {
	t.Helper()
	return pb.NewSchedulerServiceClient(serve(t, s, o))
}
