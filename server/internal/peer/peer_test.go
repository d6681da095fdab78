package peer_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/carillonhq/carillon"
	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/grpcapi"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/internal/peer"
	"github.com/carillonhq/carillon/server/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "the secret of the cluster"

// node is a node whose calls are functions of the test. A call that the test does not set panics, which the
// guard turns into an error.
type node struct {
	cluster.Services
	cluster.Control
	put   func(ctx context.Context, m message.PutJob) (carillon.PutResult, error)
	share func(p int, s *message.Share) ([]carillon.PutResult, error)
	relay func(r message.RelayReports) (message.RelayResult, error)
	all   func(p int, m message.Commands) ([]message.Decision, error)
}

func (n *node) Ask(ctx context.Context, p int, m message.Message) (any, error) {
	switch m := m.(type) {
	case message.PutJob:
		return n.put(ctx, m)
	case message.PutJobs:
		return puts(m.Jobs), nil
	case message.ApplyShare:
		return n.share(p, m.Share)
	case message.RelayReports:
		return n.relay(m)
	case message.Commands:
		return n.all(p, m)
	}
	return nil, fmt.Errorf("%T", m)
}

func (n *node) Status(context.Context) (cluster.Status, error) {
	return cluster.Status{ID: "far", Nonce: 7, Skew: time.Millisecond, SkewKnown: true}, nil
}

// served returns what a test serves to peers.
type served interface {
	cluster.Services
	cluster.Control
}

// serve serves a node over loopback and connects to it.
func serve(t *testing.T, n *node, o peer.Options) (*peer.Client, *grpcapi.Server) {
	t.Helper()
	return serveAs(t, n, o)
}

func serveAs(t *testing.T, n served, o peer.Options) (*peer.Client, *grpcapi.Server) {
	t.Helper()
	return serveWith(t, n, o, grpcapi.Options{})
}

func serveWith(t *testing.T, n served, o peer.Options,
	frame grpcapi.Options) (*peer.Client, *grpcapi.Server) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpcapi.NewFrame(frame)
	peerv1.RegisterPeerServiceServer(server,
		peer.NewServer(peer.Served{Services: n, Control: n, Partitions: 16, Secret: secret, Now: time.Now}))
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if o.Secret == "" {
		o.Secret = secret
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	c, err := peer.Dial(listener.Addr().String(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c, server
}

func job() carillon.Job {
	return carillon.Job{Namespace: "default", Name: "job", Due: carillon.In(time.Minute),
		Target: carillon.WorkerQueue("q"), Data: carillon.JSON("x")}
}

// TestACallIsForwardedWhole: including what the public API does not have.
func TestACallIsForwardedWhole(t *testing.T) {
	seen := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	options := carillon.PutOptions{Replace: true, IfAbsent: true}
	n := &node{put: func(_ context.Context, m message.PutJob) (carillon.PutResult, error) {
		if m.Options != options || !m.SeenAt.Equal(seen) {
			t.Errorf("options %+v, seen at %v", m.Options, m.SeenAt)
		}
		return carillon.PutResult{Job: m.Job, Created: true, Warnings: []string{"careful"}}, nil
	}}
	c, _ := serve(t, n, peer.Options{})
	put, err := message.Send(t.Context(), c, 9, message.PutJob{Job: job(), Options: options, SeenAt: seen})
	if err != nil || !put.Created || put.Job.Name != "job" || string(put.Job.Data.Bytes) != `"x"` ||
		len(put.Warnings) != 1 {
		t.Errorf("put %+v, %v", put, err)
	}
}

// TestErrorsCrossWhole: with their kind, field and outcome, and with whether another node should be asked.
func TestErrorsCrossWhole(t *testing.T) {
	var answer error
	n := &node{put: func(context.Context, message.PutJob) (carillon.PutResult, error) {
		return carillon.PutResult{}, answer
	}}
	c, _ := serve(t, n, peer.Options{})
	for _, want := range []*carillon.Error{
		{Kind: carillon.InvalidArgument, Field: "schedule", Message: "wrong"},
		{Kind: carillon.Unavailable, Message: "who knows", Unknown: true},
	} {
		answer = want
		_, err := c.PutJob(t.Context(), job())
		e, ok := errors.AsType[*carillon.Error](err)
		if !ok || e.Kind != want.Kind || e.Field != want.Field || e.Message != want.Message ||
			e.Unknown != want.Unknown || errors.Is(err, message.ErrNotOwner) {
			t.Errorf("got %#v, want %#v", err, want)
		}
	}
	answer = carillon.Errorf(carillon.Unavailable, "", "partition 3: %w", message.ErrNotOwner)
	if _, err := c.PutJob(t.Context(), job()); !errors.Is(err, message.ErrNotOwner) ||
		!errors.Is(err, carillon.Unavailable) {
		t.Errorf("got %#v", err)
	}
	answer = carillon.Errorf(carillon.Unavailable, "", "%w", message.ErrNotTaken)
	if _, err := c.PutJob(t.Context(), job()); !errors.Is(err, message.ErrNotTaken) ||
		!errors.Is(err, carillon.Unavailable) {
		t.Errorf("got %#v", err)
	}
	answer = &carillon.Error{Kind: carillon.Unavailable, Unknown: true, Err: message.ErrNotOwner}
	_, err := c.PutJob(t.Context(), job())
	if e, ok := errors.AsType[*carillon.Error](err); !ok || !e.Unknown || errors.Is(err, message.ErrNotOwner) {
		t.Errorf("done in part: got %#v", err)
	}
	n.put = nil // panics
	if _, err := c.PutJob(t.Context(), job()); !errors.Is(err, carillon.Internal) {
		t.Errorf("a panic: %#v", err)
	}
}

// TestOthersAreRefused: without the secret nothing is done.
func TestOthersAreRefused(t *testing.T) {
	c, _ := serve(t, &node{}, peer.Options{Secret: "another"})
	_, err := c.PutJob(t.Context(), job())
	if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.Unavailable ||
		!errors.Is(err, cluster.ErrUnreached) || e.Unknown {
		// a node of another cluster has the address of a node that is gone: the owner is elsewhere
		t.Errorf("put: %#v", err)
	}
	if _, err := c.Status(t.Context()); !errors.Is(err, cluster.ErrUnreached) {
		t.Errorf("status: %v", err)
	}
}

// TestWhatComesLateIsNotDone: and the error says so.
func TestWhatComesLateIsNotDone(t *testing.T) {
	c, _ := serve(t, &node{}, peer.Options{Now: func() time.Time { return time.Now().Add(-time.Minute) }})
	_, err := c.PutJob(t.Context(), job())
	e, ok := errors.AsType[*carillon.Error](err)
	if !ok || !errors.Is(err, cluster.ErrUnreached) || e.Unknown {
		t.Errorf("put: %#v", err)
	}
}

// TestANodeThatDiesInTheMiddle: it is unknown whether the call was carried out, and the connection is found
// to be broken.
func TestANodeThatDiesInTheMiddle(t *testing.T) {
	begun := make(chan struct{})
	n := &node{put: func(ctx context.Context, _ message.PutJob) (carillon.PutResult, error) {
		close(begun)
		<-ctx.Done()
		return carillon.PutResult{}, ctx.Err()
	}}
	c, server := serve(t, n, peer.Options{})
	go func() {
		<-begun
		server.Stop()
	}()
	_, err := c.PutJob(t.Context(), job())
	e, ok := errors.AsType[*carillon.Error](err)
	if !ok || !errors.Is(err, cluster.ErrLost) || !e.Unknown {
		t.Errorf("put: %#v", err)
	}
	<-c.Broken()
	_, err = c.PutJob(t.Context(), job())
	if e, ok = errors.AsType[*carillon.Error](err); !ok || !errors.Is(err, cluster.ErrUnreached) || e.Unknown {
		t.Errorf("put afterwards: %#v", err)
	}
}

// TestANodeThatDoesNotAnswer: it accepts connections and is silent, like a stopped process.
func TestANodeThatDoesNotAnswer(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	c, err := peer.Dial(listener.Addr().String(), peer.Options{Secret: secret, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.PutJob(t.Context(), job()) // without a deadline
	e, ok := errors.AsType[*carillon.Error](err)
	if !ok || !errors.Is(err, cluster.ErrUnreached) || e.Unknown {
		t.Errorf("put: %#v", err)
	}
	<-c.Broken()
}

// TestSharesAndReportsCrossWhole: with everything that the other partition needs.
func TestSharesAndReportsCrossWhole(t *testing.T) {
	j := job()
	j.Due, j.Schedule, j.DependsOn = carillon.When{}, "@daily", nil
	by := store.RunID{Partition: 3, Scheduled: 5, Seq: 1}
	term := store.Term{Epoch: 7, Nonce: 8}
	share := message.Share{Batch: "batch", Coordinator: 5, Late: true, Term: term,
		Reqs: []message.PutRequest{{Job: &j, Random: [8]byte{1, 2}, At: 77,
			Spec: partition.EncodeSpec(&j), Waits: []store.Wait{{Name: "first", By: by, Open: true},
				{Name: "second"}}}}}
	said := message.RelayReports{
		Reports: []delivery.Report{{Result: carillon.Result{Token: "t", RunID: "r",
			Outcome: carillon.OutcomeFailure, Message: "no", RetryAfter: time.Second},
			Namespace: "ns", Async: true, PauseJob: true, Worker: "w"}},
		Heartbeats: []carillon.Heartbeat{{Token: "b"}}, Lost: []string{"l"}, Undelivered: []string{"u"},
	}
	n := &node{
		share: func(p int, s *message.Share) ([]carillon.PutResult, error) {
			got, want := *s, share
			if p != 9 || got.Batch != want.Batch || got.Coordinator != want.Coordinator ||
				got.Late != want.Late || got.Reqs[0].At != 77 || got.Term != term ||
				got.Reqs[0].Random != want.Reqs[0].Random || got.Reqs[0].Job.Schedule != "@daily" ||
				!reflect.DeepEqual(got.Reqs[0].Waits, want.Reqs[0].Waits) {
				t.Errorf("share for %d: %+v", p, got)
			}
			return []carillon.PutResult{{Job: j, Created: true}}, nil
		},
		relay: func(s message.RelayReports) (message.RelayResult, error) {
			if !reflect.DeepEqual(s, said) {
				t.Errorf("said %+v, want %+v", s, said)
			}
			return message.RelayResult{Accepted: []string{"t"}, Stale: []string{"b"}}, nil
		},
	}
	c, _ := serve(t, n, peer.Options{})
	puts, err := message.Send(t.Context(), c, 9, message.ApplyShare{Share: &share})
	if err != nil || len(puts) != 1 || !puts[0].Created || string(puts[0].Job.Data.Bytes) != `"x"` {
		t.Errorf("puts %+v, %v", puts, err)
	}
	n.share = func(int, *message.Share) ([]carillon.PutResult, error) { return nil, nil }
	if puts, err := message.Send(t.Context(), c, 9, message.ApplyShare{Share: &share}); err != nil ||
		puts != nil {
		t.Errorf("stored before: %+v, %v", puts, err)
	}
	n.share = func(int, *message.Share) ([]carillon.PutResult, error) {
		return nil, message.OtherTerm(9, &message.OtherTermError{Term: term})
	}
	_, err = message.Send(t.Context(), c, 9, message.ApplyShare{Share: &share})
	if other, ok := errors.AsType[*message.OtherTermError](err); !ok || other.Term != term {
		t.Errorf("another term: %v", err)
	}
	heard, err := message.Send(t.Context(), c, 9, said)
	if err != nil || !reflect.DeepEqual(heard,
		message.RelayResult{Accepted: []string{"t"}, Stale: []string{"b"}}) {
		t.Errorf("heard %+v, %v", heard, err)
	}
}
