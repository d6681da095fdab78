package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/dispatch"
	sessions "github.com/carillonhq/carillon/internal/dispatch/worker"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/store"
)

// node is one node over a store that outlives it.
type node struct {
	disk store.Store
	seed uint64

	mu    sync.Mutex
	lives int
	up    *life // nil while it is down
}

// life is one incarnation of the node, from start to kill.
type life struct {
	sky    *sky
	engine *engine.Engine
	hub    *dispatch.Hub
}

// start boots the node.
func (n *node) start(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lives++
	l := &life{sky: &sky{Store: n.disk, rng: rand.New(rand.NewPCG(n.seed, uint64(n.lives)))}}
	l.engine = engine.New(engine.Config{Store: l.sky})
	l.hub = dispatch.New(l.engine, dispatch.Options{Accept: sessions.Accept(sessions.Options{})})
	if err := l.engine.Start(ctx, l.hub); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	n.up = l
	return nil
}

// kill ends the node as SIGKILL would: nothing that is not durable survives.
func (n *node) kill(ctx context.Context) error {
	n.mu.Lock()
	l := n.up
	n.up = nil
	n.mu.Unlock()
	l.sky.kill()
	if err := l.hub.Close(); err != nil {
		return err
	}
	_ = l.engine.Stop(ctx) // it cannot release what it is cut off from
	return nil
}

// stop ends the node in order.
func (n *node) stop(ctx context.Context) error {
	n.mu.Lock()
	l := n.up
	n.up = nil
	n.mu.Unlock()
	if err := l.hub.Close(); err != nil {
		return err
	}
	return l.engine.Stop(ctx)
}

// now is the node's incarnation, nil while it is down.
func (n *node) now() *life {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.up
}

// down is what callers get while the node is down.
var errDown = carillon.Errorf(carillon.Unavailable, "", "the node is down")

// weather changes how the store behaves.
func (n *node) weather(w Weather) {
	if l := n.now(); l != nil {
		l.sky.set(w)
	}
}

// call runs f against the node, with a deadline.
func (n *node) call(f func(ctx context.Context, l *life) error) error {
	l := n.now()
	if l == nil {
		return errDown
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return f(ctx, l)
}
