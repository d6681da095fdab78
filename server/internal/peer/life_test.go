package peer_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/internal/grpcapi"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/peer"
)

// pinged is a node that reports when it has been pinged.
type pinged struct {
	*node
	pings chan struct{}
}

// Status implements [cluster.Control].
func (p *pinged) Status(ctx context.Context) (cluster.Status, error) {
	select {
	case p.pings <- struct{}{}:
	case <-ctx.Done():
	}
	return p.node.Status(ctx)
}

// TestAClockThatWasSetBreaksNothing: pings that seem late because of it still count as signs of life.
func TestAClockThatWasSetBreaksNothing(t *testing.T) {
	c, _ := serve(t, &node{}, peer.Options{Now: func() time.Time { return time.Now().Add(-time.Hour) }})
	if s, err := c.Status(t.Context()); err != nil || s.Nonce != 7 {
		t.Errorf("status %+v, %v", s, err)
	}
}

// TestLittleTimeIsEnough: a call with a short deadline is carried out although the two nodes disagree
// slightly on the time.
func TestLittleTimeIsEnough(t *testing.T) {
	n := &node{put: func(_ context.Context, m message.PutJob) (carillon.PutResult, error) {
		return carillon.PutResult{Job: m.Job}, nil
	}}
	c, _ := serve(t, n, peer.Options{Now: func() time.Time { return time.Now().Add(-900 * time.Millisecond) }})
	ctx, cancel := context.WithTimeout(t.Context(), 800*time.Millisecond)
	defer cancel()
	if _, err := c.PutJob(ctx, job()); err != nil {
		t.Errorf("put: %v", err)
	}
}

// TestCallsThatWaitBreakNothing: when as many calls as a connection takes wait for the node's store, the node
// is not considered dead.
func TestCallsThatWaitBreakNothing(t *testing.T) {
	open := make(chan struct{})
	n := &pinged{pings: make(chan struct{}),
		node: &node{put: func(_ context.Context, m message.PutJob) (carillon.PutResult, error) {
			<-open
			return carillon.PutResult{Job: m.Job}, nil
		}}}
	c, _ := serveWith(t, n, peer.Options{}, grpcapi.Options{MaxStreams: 2})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if _, err := c.PutJob(t.Context(), job()); err != nil {
				t.Errorf("put: %v", err)
			}
		})
	}
	for range 3 { // each shows that pings get through
		select {
		case <-n.pings:
		case <-c.Broken():
			t.Fatal("the connection was given up")
		}
	}
	close(open)
	all.Wait()
}
