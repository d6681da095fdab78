package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/internal/dispatch"
	"github.com/carillonhq/carillon/server/internal/dispatch/httptarget"
	sessions "github.com/carillonhq/carillon/server/internal/dispatch/worker"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/peer"
	"github.com/carillonhq/carillon/server/store"
)

// Scheduler is what clients call: a node's engine, or a mutant's version of it.
type Scheduler interface {
	carillon.Jobs
	carillon.Runs
	carillon.Backfills
	carillon.Namespaces
	carillon.Calendars
}

// node is one node over a store that outlives it.
type node struct {
	w      *world
	number int
	faults faults
	gate   gate
	door   door

	mu    sync.Mutex
	lives int
	up    *life          // nil while it is down
	ends  sync.WaitGroup // of lives that were killed, and of their last writes
}

// life is one incarnation of a node, from start to kill.
type life struct {
	store  *faultyStore
	engine *engine.Engine
	api    Scheduler
	hub    *dispatch.Hub
	node   *node
	member *cluster.Node // nil if the node is alone
	nonce  uint64        // of the member
	served *peer.Server  // what the life does for other nodes
	over   chan struct{} // closed when it is killed, or has left

	attendance *attendance // of sidecars
}

// now is the node's wall clock.
func (n *node) now() time.Time { return time.Now().Add(n.faults.clock() + n.w.options.Mutant.Clock) }

// name is the node's among the members.
func (n *node) name() string { return fmt.Sprintf("node%d", n.number) }

// start boots the node, once; it fails if the store does.
func (n *node) start(ctx context.Context) error {
	n.mu.Lock()
	n.lives++
	number := n.lives
	n.mu.Unlock()
	name := fmt.Sprintf("%s.%d", n.name(), number)
	m := &n.w.options.Mutant
	disk := store.Store(&audit{Store: n.w.disk, life: name, log: n.w.log})
	l := &life{node: n, over: make(chan struct{}), attendance: newAttendance(n),
		store: &faultyStore{Store: disk, chance: n.w.chance, faults: &n.faults, gate: &n.gate,
			node: n.number, members: n.w.plan.cluster(), flying: &n.ends}}
	config := engine.Config{
		Store: wrap(m.Store, store.Store(l.store)), Node: n.name(), Now: n.now, Random: n.w.dice,
		Partition: n.w.options.Partition, Lanes: n.lanes(),
		Turn: func(p int) {
			n.gate.wait()
			pause(actorPartition+n.number*maxPartitions+p, 0)
		},
		Enter: n.enter, FireCritical: n.w.plan.FireCritical,
	}
	if n.w.plan.cluster() {
		l.nonce = n.w.chance.about("process", uint64(n.number), uint64(number)).Uint64() | 1
		l.member = cluster.New(cluster.Config{Member: store.Member{ID: n.name(), Address: n.name(),
			Nonce: l.nonce}, Store: config.Store,
			Dial: l.dial, TTL: n.w.plan.LeaseTTL, Now: n.now, Enter: n.enter})
		config.Standby, config.Peers, config.LeaseTTL = true, wrap(m.Peers,
			message.Partitions(l.member.Router())), n.w.plan.LeaseTTL
		config.Announce, config.MayClaim = l.member.Announce, l.member.MayClaim
		config.AnnounceLimits = l.member.AnnounceLimits
	}
	l.engine = engine.New(config)
	if l.member != nil {
		l.served = l.serve()
	}
	l.api = wrap(m.API, l.scheduler())
	l.hub = dispatch.New(listener{wrap(m.Sink, dispatch.Sink(l.engine)), l.attendance}, dispatch.Options{
		Accept: sessions.Accept(sessions.Options{}),
		Transports: map[string]dispatch.Transport{"http": httptarget.New(httptarget.Options{Dial: n.dial,
			Now: n.now, Enter: n.attempt})},
		Now: n.now,
	})
	if err := l.engine.Start(ctx, wrap(m.Dispatcher, engine.Dispatcher(l.hub))); err != nil {
		return errors.Join(fmt.Errorf("start: %w", err), l.hub.Close())
	}
	n.mu.Lock()
	n.up = l
	n.mu.Unlock()
	if l.member == nil {
		return nil
	}
	local := cluster.Local(l.engine)
	if m.Local != nil {
		local = m.Local(local, config.Store, n.name())
	}
	if err := l.member.Start(ctx, local); err != nil {
		n.leave()
		return errors.Join(fmt.Errorf("start: %w", err), l.hub.Close(), l.engine.Stop(ctx))
	}
	return nil
}

// scheduler is what clients of the life call.
func (l *life) scheduler() Scheduler {
	if l.member == nil {
		return l.engine
	}
	return l.member.Router()
}

// dial is how the node reaches endpoints.
func (n *node) dial(ctx context.Context, network, address string) (net.Conn, error) {
	n.gate.wait()
	c, err := n.w.net.dial(ctx, n.number, address)
	n.gate.wait()
	if err != nil {
		return nil, err
	}
	return gatedConn{c, &n.gate}, nil
}

// lanes is how many the node's engine has. A mutant's disk may not know groups, of which the faults and the
// audit above it make none if each partition has a lane of its own.
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

// kill ends the node as SIGKILL would: nothing that is not durable survives. What is left of it ends by
// itself. It reports false if the node is down, and whoever killed it will start it again.
func (n *node) kill(ctx context.Context) bool {
	l := n.leave()
	if l == nil {
		return false
	}
	l.store.kill()
	n.ends.Go(func() {
		_ = l.hub.Close()      // a dead node's connections end whatever it says
		_ = l.engine.Stop(ctx) // it cannot release what it is cut off from
		_ = l.quit(ctx)        // nor say goodbye
	})
	return true
}

// stop ends the node in order.
func (n *node) stop(ctx context.Context) error {
	l := n.leave()
	if l == nil {
		return nil
	}
	err := errors.Join(l.hub.Close(), l.engine.Stop(ctx), l.quit(ctx))
	n.ends.Wait()
	return err
}

// quit ends the membership.
func (l *life) quit(ctx context.Context) error {
	if l.member == nil {
		return nil
	}
	return l.member.Close(ctx)
}

// depart ends the node as SIGTERM does: others own what it did before it goes. It reports false if the node
// is down. late is why it gave up what its consumers still had, or had said and nobody had heard.
func (n *node) depart(ctx context.Context, actor int) (was bool, late error) {
	l := n.life()
	if l == nil {
		return false, nil
	}
	bounded, cancel := context.WithTimeout(ctx, departWithin)
	defer cancel()
	_ = l.member.Leave(bounded) // what it cannot hand over is taken from it
	if n.life() != l {
		return false, nil // it was killed meanwhile
	}
	round(actor)
	_ = l.hub.Drain(bounded) // requests to endpoints end, or
	for l.working() && bounded.Err() == nil {
		pause(actor, 20*time.Millisecond)
	}
	late = bounded.Err() // are given up
	l.hub.EndStreams()
	told, stop := context.WithTimeout(ctx, 2*time.Second)
	_ = l.engine.Drain(told) // whoever is not told finds out
	stop()
	if n.life() != l {
		return false, nil
	}
	n.leave()
	_ = l.member.Finish(ctx) // the others find out in any case
	_ = l.engine.Stop(ctx)
	_ = l.hub.Close()
	_ = l.quit(ctx)
	return true, late
}

// working reports whether a worker has a run of the life.
func (l *life) working() bool {
	return slices.ContainsFunc(l.hub.Workers(), func(w dispatch.WorkerStats) bool { return w.InFlight > 0 })
}

// departWithin is how long a node tries to hand over.
const departWithin = 10 * time.Second

func (n *node) leave() *life {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.up
	n.up = nil
	if l != nil {
		l.attendance.end()
		close(l.over)
	}
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
func (n *node) call(who string, f func(ctx context.Context, api Scheduler) error) error {
	l := n.life()
	if l == nil {
		return errDown
	}
	ctx, cancel := context.WithTimeout(calling(context.Background(), who), callTimeout)
	defer cancel()
	if err := n.gate.reach(ctx); err != nil {
		return err // who knows whether it was heard
	}
	err := f(ctx, l.api)
	if late := n.gate.reach(ctx); late != nil {
		return late
	}
	return err
}

// callTimeout is how long a client waits.
const callTimeout = 5 * time.Second
