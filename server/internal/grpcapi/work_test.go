package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// work opens a worker's stream over a new session.
func work(t *testing.T, o Options) (pb.SchedulerService_WorkClient, *session) {
	t.Helper()
	s := newSession()
	c := dial(t, &stub{connect: func(_ context.Context, h carillon.Hello) (carillon.Session, error) {
		if h.Namespace != carillon.DefaultNamespace || h.WorkerID != "w1" {
			t.Errorf("hello %+v", h)
		}
		return s, nil
	}}, o)
	stream, err := c.Work(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&pb.WorkRequest{Hello: &pb.Hello{WorkerId: "w1", Queues: []string{"q"}},
		Credits: []*pb.Credit{{Queue: "q", N: 5}}}); err != nil {
		t.Fatal(err)
	}
	return stream, s
}

func TestWorkBothWays(t *testing.T) {
	stream, s := work(t, Options{})
	if first := <-s.sent; first.Credits[0] != (carillon.Credit{Queue: "q", N: 5}) {
		t.Errorf("with the hello: %+v", first)
	}
	s.toSend <- carillon.WorkResponse{Runs: []carillon.Run{{ID: "r1", Token: "t1", Attempt: 2}}}
	m, err := stream.Recv()
	if err != nil || m.GetRuns()[0].GetId() != "r1" || m.GetRuns()[0].GetAttempt() != 2 {
		t.Fatalf("got %v, %v", m, err)
	}
	if err := stream.Send(&pb.WorkRequest{
		Results:    []*pb.Result{{Token: "t1", RunId: "r1", Outcome: pb.Outcome_OUTCOME_SUCCESS}},
		Heartbeats: []*pb.Heartbeat{{Token: "t2", RunId: "r2"}}, Goodbye: true}); err != nil {
		t.Fatal(err)
	}
	got := <-s.sent
	if got.Results[0].Outcome != carillon.OutcomeSuccess || got.Heartbeats[0].Token != "t2" || !got.Goodbye {
		t.Errorf("the session got %+v", got)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after CloseSend: %v", err)
	}
	<-s.closed
}

// TestWorkSessionEnds: what the session said last arrives before the stream ends.
func TestWorkSessionEnds(t *testing.T) {
	stream, s := work(t, Options{})
	s.toSend <- carillon.WorkResponse{Acks: []string{"t1"}}
	close(s.toSend)
	if m, err := stream.Recv(); err != nil || m.GetAcks()[0] != "t1" {
		t.Errorf("got %v, %v", m, err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	<-s.closed
}

func TestWorkHello(t *testing.T) {
	c := dial(t, &stub{}, Options{})
	stream, err := c.Work(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.Send(&pb.WorkRequest{Goodbye: true}) // the error comes with Recv
	_, err = stream.Recv()
	if e := problemOf(t, err); e.Field != "hello" {
		t.Errorf("without: %v", e)
	}
	twice, s := work(t, Options{})
	_ = twice.Send(&pb.WorkRequest{Hello: &pb.Hello{}}) // the error comes with Recv
	_, err = twice.Recv()
	if e := problemOf(t, err); e.Field != "hello" {
		t.Errorf("twice: %v", e)
	}
	<-s.closed
}

// brokenSession panics where a test says.
type brokenSession struct {
	*session
	inSend bool
}

func (s brokenSession) Send(ctx context.Context, r carillon.WorkRequest) error {
	if s.inSend {
		panic("send")
	}
	return s.session.Send(ctx, r)
}

func (s brokenSession) Receive(ctx context.Context) (carillon.WorkResponse, error) {
	if !s.inSend {
		panic("receive")
	}
	return s.session.Receive(ctx)
}

// TestWorkPanics: a panic in a session ends its stream and not the process.
// TestWorkEndsBeforeHello: it is the caller's mistake, and none of the node's to log.
func TestWorkEndsBeforeHello(t *testing.T) {
	stream, err := dial(t, &stub{}, Options{}).Work(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	if e := problemOf(t, err); e.Field != "hello" || e.Kind != carillon.InvalidArgument {
		t.Errorf("got %v", e)
	}
}

func TestWorkPanics(t *testing.T) {
	for _, inSend := range []bool{true, false} {
		s := brokenSession{newSession(), inSend}
		c := dial(t, &stub{connect: func(context.Context, carillon.Hello) (carillon.Session, error) {
			return s, nil
		}}, Options{})
		stream, err := c.Work(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = stream.Send(&pb.WorkRequest{Hello: &pb.Hello{}}) // the error comes with Recv
		_, err = stream.Recv()
		if e := problemOf(t, err); e.Kind != carillon.Internal {
			t.Errorf("got %v", e)
		}
		<-s.closed
	}
}

// TestWorkPeerThatNeverReads: its stream ends, its session is closed, and another worker is not held up
// meanwhile.
func TestWorkPeerThatNeverReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stallTimeout = 30 * time.Second
		sessions := map[string]*session{"deaf": newSession(), "good": newSession()}
		c := dial(t, &stub{connect: func(_ context.Context, h carillon.Hello) (carillon.Session, error) {
			return sessions[h.WorkerID], nil
		}}, Options{StallTimeout: stallTimeout})
		open := func(id string) pb.SchedulerService_WorkClient {
			stream, err := c.Work(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := stream.Send(&pb.WorkRequest{Hello: &pb.Hello{WorkerId: id}}); err != nil {
				t.Fatal(err)
			}
			return stream
		}
		open("deaf")
		good := open("good")
		start := time.Now()
		payload := carillon.WorkResponse{Runs: []carillon.Run{{Data: carillon.Bytes(make([]byte, 64<<10), "")}}}
		for stuck := false; !stuck; {
			select {
			case sessions["deaf"].toSend <- payload:
			case <-sessions["deaf"].closed:
				stuck = true
			}
			sessions["good"].toSend <- carillon.WorkResponse{Acks: []string{"t"}}
			if _, err := good.Recv(); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took != stallTimeout {
			t.Errorf("the deaf worker was cut after %v, want %v", took, stallTimeout)
		}
		if err := good.CloseSend(); err != nil {
			t.Error(err)
		}
		<-sessions["good"].closed
	})
}

// TestAnOldStreamIsCut: a worker that does not connect again when it is asked to loses its stream, unless the
// method is one that lasts.
func TestAnOldStreamIsCut(t *testing.T) {
	for name, o := range map[string]Options{"cut": {}, "lasting": {Lasting: []string{pb.SchedulerService_Work_FullMethodName}}} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			o.ConnectionAge, o.ConnectionGrace = time.Hour, time.Hour
			stream, s := work(t, o)
			if m, err := stream.Recv(); err != nil || !m.GetDrain() {
				t.Errorf("%s: got %v, %v", name, m, err)
			}
			if name == "lasting" {
				<-time.After(3 * time.Hour)
				if err := stream.CloseSend(); err != nil {
					t.Error(err)
				}
			}
			_, err := stream.Recv()
			if age := time.Since(start); name == "cut" && (status.Code(err) != codes.Unavailable || age != 2*time.Hour) {
				t.Errorf("after %v: %v", age, err)
			}
			<-s.closed
		})
	}
}

// TestWorkOldStream: before the transport cuts an old connection, the worker is asked to connect again.
func TestWorkOldStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		stream, s := work(t, Options{ConnectionAge: time.Hour, ConnectionGrace: time.Hour})
		m, err := stream.Recv()
		if err != nil || !m.GetDrain() {
			t.Errorf("got %v, %v", m, err)
		}
		if age := time.Since(start); age != time.Hour {
			t.Errorf("after %v", age)
		}
		if err := stream.CloseSend(); err != nil {
			t.Error(err)
		}
		<-s.closed
	})
}

// TestParts: however much a session hands over at once, no message is too large, nothing is lost, the order
// is kept.
func TestParts(t *testing.T) {
	for _, size := range []int{0, 100, maxPart / 3, 3 * maxPart} {
		resp := carillon.WorkResponse{Acks: []string{strings.Repeat("t", 100)}, Drain: true}
		for i := range 20 {
			resp.Runs = append(resp.Runs, carillon.Run{ID: fmt.Sprint(i),
				Data: carillon.Bytes(make([]byte, size), "")})
		}
		next, acks := 0, 0
		for part := range parts(resp) {
			m := wireSize(&part)
			if m > maxPart+1000 && len(part.Runs) > 1 {
				t.Errorf("runs of %d bytes: %d runs make a message of %d bytes", size, len(part.Runs), m)
			}
			for _, r := range part.Runs {
				if r.ID != fmt.Sprint(next) {
					t.Errorf("run %s after %d", r.ID, next)
				}
				next++
			}
			acks += len(part.Acks)
		}
		if next != 20 || acks != 1 {
			t.Errorf("runs of %d bytes: %d runs and %d acks came", size, next, acks)
		}
	}
	n := 0
	for range parts(carillon.WorkResponse{Drain: true}) {
		n++
	}
	if n != 1 {
		t.Errorf("a response without runs makes %d messages", n)
	}
}

func wireSize(r *carillon.WorkResponse) int { return proto.Size(wire.WorkResponseToProto(r)) }
