package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/dispatch"
	"github.com/carillonhq/carillon/internal/dispatch/httptarget"
	sessions "github.com/carillonhq/carillon/internal/dispatch/worker"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/store"
)

// Scheduler is what clients call: a node's engine, or a mutant's version of it.
type Scheduler interface {
	carillon.Jobs
	carillon.Runs
	carillon.Backfills
	carillon.Namespaces
}

// node is one node over a store that outlives it.
type node struct {
	w       *world
	number  int
	weather weather

	mu    sync.Mutex
	lives int
	up    *life          // nil while it is down
	ends  sync.WaitGroup // of lives that were killed, and of their last writes
}

// life is one incarnation of a node, from start to kill.
type life struct {
	sky    *sky
	engine *engine.Engine
	api    Scheduler
	hub    *dispatch.Hub
}

// now is the node's wall clock.
func (n *node) now() time.Time { return time.Now().Add(n.weather.clock() + n.w.options.Mutant.Clock) }

// name is the node's among the members.
func (n *node) name() string { return fmt.Sprintf("node%d", n.number) }

// start boots the node, once; it fails if the store does.
func (n *node) start(ctx context.Context) error {
	n.mu.Lock()
	n.lives++
	name := fmt.Sprintf("%s.%d", n.name(), n.lives)
	n.mu.Unlock()
	m := &n.w.options.Mutant
	disk := store.Store(&audit{Store: n.w.disk, life: name, log: n.w.log})
	l := &life{sky: &sky{Store: disk, chance: n.w.chance, weather: &n.weather, node: n.number, flying: &n.ends}}
	l.engine = engine.New(engine.Config{
		Store: wrap(m.Store, store.Store(l.sky)), Node: n.name(), Now: n.now, Random: n.w.dice,
		Partition: n.w.options.Partition, Lanes: n.lanes(),
		Turn: func(p int) { pause(actorPartition+n.number*maxPartitions+p, 0) },
	})
	l.api = wrap(m.API, Scheduler(l.engine))
	l.hub = dispatch.New(wrap(m.Sink, dispatch.Sink(l.engine)), dispatch.Options{
		Accept:     sessions.Accept(sessions.Options{}),
		Transports: map[string]dispatch.Transport{"http": httptarget.New(httptarget.Options{Dial: n.w.net.dial, Now: n.now})},
		Now:        n.now,
	})
	if err := l.engine.Start(ctx, wrap(m.Dispatcher, engine.Dispatcher(l.hub))); err != nil {
		return errors.Join(fmt.Errorf("start: %w", err), l.hub.Close())
	}
	n.mu.Lock()
	n.up = l
	n.mu.Unlock()
	return nil
}

// lanes is how many the node's engine has. A mutant's disk may not know groups, of which the weather and the audit above it
// make none if each partition has a lane of its own.
func (n *node) lanes() int {
	if _, groups := n.w.disk.(store.Grouper); !groups {
		return n.w.plan.Partitions
	}
	return n.w.plan.Lanes
}

// wrap lets a mutant have its way with something, if it wants to.
func wrap[T any](f func(T) T, v T) T {
	if f == nil {
		return v
	}
	return f(v)
}

// kill ends the node as SIGKILL would: nothing that is not durable survives. What is left of it ends by itself. It reports false if
// the node is down, and whoever killed it will start it again.
func (n *node) kill(ctx context.Context) bool {
	l := n.leave()
	if l == nil {
		return false
	}
	l.sky.kill()
	n.ends.Go(func() {
		_ = l.hub.Close()      // a dead node's connections end whatever it says
		_ = l.engine.Stop(ctx) // it cannot release what it is cut off from
	})
	return true
}

// stop ends the node in order.
func (n *node) stop(ctx context.Context) error {
	l := n.leave()
	if l == nil {
		return nil
	}
	err := errors.Join(l.hub.Close(), l.engine.Stop(ctx))
	n.ends.Wait()
	return err
}

func (n *node) leave() *life {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.up
	n.up = nil
	return l
}

// life is the node's incarnation, nil while it is down.
func (n *node) life() *life {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.up
}

// errDown is what callers get while the node is down.
var errDown = carillon.Errorf(carillon.Unavailable, "", "the node is down")

// call runs f against the node, with a deadline.
func (n *node) call(f func(ctx context.Context, api Scheduler) error) error {
	l := n.life()
	if l == nil {
		return errDown
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	return f(ctx, l.api)
}

// callTimeout is how long a client waits.
const callTimeout = 5 * time.Second
