package monitor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/monitor"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// home writes down what a monitor has seen.
type home struct {
	mu       sync.Mutex
	owns     bool
	failing  error
	nodes    []partition.SeenNode
	unserved []carillon.Queue
	queried  int // pages
	unheard  []string
	fresh    int // times that the store was asked for nodes
	seen     []string
}

func (h *home) set(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

func (h *home) OwnsHome() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.owns
}

func (h *home) SeeNodes(_ context.Context, nodes []partition.SeenNode) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failing == nil {
		h.seen = append(h.seen, fmt.Sprint("nodes ", len(nodes)))
	}
	return h.failing
}

func (h *home) SeeUnserved(_ context.Context, queues []partition.UnservedQueue) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	for _, q := range queues {
		all = append(all, fmt.Sprintf("%s:%t", q.Queue.Address, q.Long))
	}
	slices.Sort(all)
	if h.failing == nil {
		h.seen = append(h.seen, "queues "+strings.Join(all, " "))
	}
	return h.failing
}

func (h *home) list(_ context.Context, fresh bool) ([]partition.SeenNode, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if fresh {
		h.fresh++
	}
	return slices.Clone(h.nodes), nil
}

func (h *home) queues(_ context.Context, q carillon.QueueQuery) (carillon.QueuePage, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.queried++
	if h.unheard != nil {
		return carillon.QueuePage{Unheard: h.unheard}, nil
	}
	at := len(q.PageToken) // a page has one queue
	if at >= len(h.unserved) {
		return carillon.QueuePage{}, nil
	}
	return carillon.QueuePage{Queues: h.unserved[at : at+1], NextPageToken: strings.Repeat("x", at+1)}, nil
}

// took returns what was seen since the last time.
func (h *home) took() []string {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	seen := h.seen
	h.seen = nil
	return seen
}

func want(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// look runs a monitor until the test ends. Queues are unserved for long after 5 min.
func look(t *testing.T, h *home) {
	t.Helper()
	l := monitor.New(monitor.Options{Home: h, Nodes: h.list, Queues: h.queues, Now: time.Now,
		After: func(string) time.Duration { return 5 * time.Minute }, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		l.Run(ctx)
		close(done)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

func TestNodesAreSeenAsTheyChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &home{nodes: []partition.SeenNode{{Name: "a", Nonce: 1}}}
		look(t, h)
		<-time.After(10 * time.Second)
		want(t, "not in charge", h.took())
		h.set(func() { h.owns = true })
		<-time.After(10 * time.Second)
		want(t, "in charge", h.took(), "nodes 1", "queues ")
		h.set(func() { h.nodes = append(h.nodes, partition.SeenNode{Name: "b", Nonce: 2}) })
		<-time.After(10 * time.Second)
		want(t, "another node", h.took(), "nodes 2")
		h.set(func() { h.nodes, h.failing = h.nodes[:1], errors.New("not now") })
		<-time.After(5 * time.Second)
		h.set(func() { h.failing = nil })
		<-time.After(5 * time.Second)
		want(t, "it could not be said at first", h.took(), "nodes 1")
		fresh := h.fresh
		<-time.After(time.Hour)
		want(t, "nothing is new", h.took())
		if h.fresh != fresh {
			t.Errorf("the store was asked %d times", h.fresh-fresh)
		}
	})
}

// TestQueuesAreUnservedForLong once nobody has served them, and their oldest run has waited, for as long
// as is set.
func TestQueuesAreUnservedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := func(name string, oldest time.Time) carillon.Queue {
			return carillon.Queue{Namespace: "default", Kind: "worker", Name: name, Unserved: true, Oldest: oldest}
		}
		h := &home{owns: true}
		look(t, h)
		<-time.After(time.Minute)
		want(t, "no queue", h.took(), "queues ")
		served := queue("served", time.Now())
		served.Unserved = false
		h.set(func() { h.unserved = []carillon.Queue{queue("old", time.Now().Add(-time.Hour)), served} })
		<-time.After(4 * time.Minute)
		want(t, "soon, though its run is old", h.took(), "queues old:false")
		h.set(func() { h.unserved = append(h.unserved, queue("new", time.Now())) })
		<-time.After(2 * time.Minute)
		want(t, "one for long", h.took(), "queues new:false old:false", "queues new:false old:true")
		h.set(func() { h.unserved[2].Oldest = time.Now() }) // what was older has ended
		<-time.After(4 * time.Minute)
		want(t, "the other one's runs are younger than it is unserved", h.took())
		<-time.After(2 * time.Minute)
		want(t, "both", h.took(), "queues new:true old:true")
		h.set(func() { h.unheard = []string{"b"} })
		<-time.After(time.Minute)
		want(t, "a node does not answer", h.took())
		h.set(func() { h.unheard, h.unserved = nil, nil })
		<-time.After(time.Minute)
		want(t, "none", h.took(), "queues ")
		h.set(func() { h.owns = false })
		<-time.After(time.Minute)
		queried := h.queried
		<-time.After(time.Hour)
		if h.queried != queried {
			t.Error("it looks though it is not in charge")
		}
	})
}
