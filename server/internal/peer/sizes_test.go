package peer_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/carillonhq/carillon"
	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/grpcapi"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/peer"
)

// api is a scheduler that can only put jobs.
type api struct {
	carillon.Scheduler
	puts func(jobs []carillon.Job) []carillon.PutResult
}

func (a api) PutJobs(_ context.Context, jobs []carillon.Job) ([]carillon.PutResult, error) {
	return a.puts(jobs), nil
}

func puts(jobs []carillon.Job) []carillon.PutResult { return make([]carillon.PutResult, len(jobs)) }

// TestWhatACallerMaySendIsPassedOn: a batch that one node has accepted is not too large for the next node,
// although each of its jobs now carries its namespace. A caller may send no more than before.
func TestWhatACallerMaySendIsPassedOn(t *testing.T) {
	const most = 4000
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := grpcapi.Options{MaxMessage: most}
	server := grpcapi.NewServer(grpcapi.NewService(api{puts: puts}, o), peer.Sizes(most)...)
	peerv1.RegisterPeerServiceServer(server,
		peer.NewServer(peer.Served{Services: &node{}, Control: &node{}, Partitions: 16,
			Secret: secret, Now: time.Now}))
	go func() { _ = server.Serve(listener) }() // it ends with the test
	t.Cleanup(server.Stop)
	far, err := peer.Dial(listener.Addr().String(), peer.Options{Secret: secret, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	caller, err := client.Dial(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(far.Close(), caller.Close()); err != nil {
			t.Error(err)
		}
	})
	batch := make([]carillon.Job, 60)
	for i := range batch {
		batch[i] = job()
		batch[i].Namespace = strings.Repeat("n", 30)
	}
	if got, err := far.PutJobs(t.Context(), batch); err != nil || len(got) != len(batch) {
		t.Errorf("forwarded: %d, %v", len(got), err)
	}
	if _, err := caller.PutJobs(t.Context(), batch); !errors.Is(err, carillon.ResourceExhausted) {
		t.Errorf("a caller's: %v", err)
	}
	if got, err := caller.PutJobs(t.Context(), batch[:20]); err != nil || len(got) != 20 {
		t.Errorf("a caller's that fits: %d, %v", len(got), err)
	}
}

// TestAnAnswerThatDoesNotFit: the error does not say that nothing was done.
func TestAnAnswerThatDoesNotFit(t *testing.T) {
	n := &node{put: func(_ context.Context, m message.PutJob) (carillon.PutResult, error) {
		job := m.Job
		job.Data = carillon.JSON(strings.Repeat("x", 10_000))
		return carillon.PutResult{Job: job}, nil
	}}
	c, _ := serve(t, n, peer.Options{Dial: []grpc.DialOption{grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1000))}})
	_, err := c.PutJob(t.Context(), job())
	if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.ResourceExhausted || !e.Unknown {
		t.Errorf("put: %v", err)
	}
}
