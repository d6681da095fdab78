package sim

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/internal/dispatch"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// Options are how a plan is lived through.
type Options struct {
	Partition partition.Config // of the engines; zero is the default
	Mutant    Mutant
}

// Mutant is a bug, planted where the parts of a node meet. The zero value is none.
type Mutant struct {
	Name       string
	Disk       func(store.Store) store.Store // what is durable, below the audit
	Store      func(store.Store) store.Store // as the engine sees it, above the faults
	API        func(Scheduler) Scheduler
	Sink       func(dispatch.Sink) dispatch.Sink
	Dispatcher func(engine.Dispatcher) engine.Dispatcher
	Peer       func(cluster.Peer) cluster.Peer
	Peers      func(message.Partitions) message.Partitions
	Wire       func(message proto.Message) // may change a request between nodes before it is written
	Local      func(l cluster.Local, s store.Store, node string) cluster.Local
	Clock      time.Duration // how far the nodes' clocks are wrong without anybody knowing
}

// world is all that lives in a bubble.
type world struct {
	plan    *Plan
	options Options
	chance  chance
	dice    *dice
	rec     *checker.Recorder
	log     *auditLog
	disk    store.Store
	memory  *memory.Store // below it
	nodes   []*node
	net     *network
	hosts   []*endpoint
	clients map[int]*client
	daprds  map[string]*sidecar
	cuts    cuts
	pausers map[carillon.Key]bool
	calls   sync.WaitGroup // between nodes, on their way

	left []string // slots that are held though nobody has anything

	mu     sync.Mutex
	failed []error // of the harness itself
}

// oneGate says that limits which sidecars name hold over all nodes together.
const oneGate = true

// Constants are what the checker may demand of a run of the plan.
func (p *Plan) Constants() checker.Constants {
	if p.cluster() {
		return checker.Constants{Dispatch: time.Second, Recovery: 6 * time.Second,
			OwnerLease: p.LeaseTTL + 1500*time.Millisecond, Handover: 500 * time.Millisecond, Slots: p.Slots,
			OneGate: oneGate}
	}
	return checker.Constants{Dispatch: time.Second, Recovery: 6 * time.Second, OwnerLease: 15 * time.Second,
		Slots: p.Slots}
}

// Run lives through a plan. It must be called in a testing/synctest bubble, which it leaves empty.
func Run(p *Plan, o Options) (checker.History, error) {
	time.Sleep(time.Until(p.Start))
	w := newWorld(p, o)
	ctx := context.Background()
	for _, n := range w.nodes {
		if p.late(n.number) {
			continue
		}
		if err := n.start(ctx); err != nil {
			return checker.History{}, err
		}
	}
	if err := w.putCalendar(ctx); err != nil {
		return checker.History{}, err
	}
	for _, h := range w.hosts {
		h.open()
	}
	w.live(ctx)
	left, err := w.leftovers(ctx)
	w.fail(err)
	for _, h := range w.hosts {
		h.close()
	}
	for _, n := range w.nodes {
		w.fail(n.stop(ctx))
	}
	w.calls.Wait()
	h := until(w.rec.History())
	h.Final.Left = slices.Concat(w.left, left)
	return h, errors.Join(w.failed...)
}

// until drops from a history what came after its end.
func until(h checker.History) checker.History {
	late := func(at time.Time) bool { return at.After(h.End) }
	h.Ops = slices.DeleteFunc(h.Ops, func(o checker.Op) bool { return late(o.Invoke) })
	h.Attempts = slices.DeleteFunc(h.Attempts, func(a checker.Attempt) bool { return late(a.At) })
	h.Results = slices.DeleteFunc(h.Results, func(r checker.Result) bool { return late(r.Sent) })
	h.Heartbeats = slices.DeleteFunc(h.Heartbeats, func(b checker.Heartbeat) bool { return late(b.At) })
	h.Releases = slices.DeleteFunc(h.Releases, func(r checker.Release) bool { return late(r.At) })
	h.Writes = slices.DeleteFunc(h.Writes, func(w checker.Write) bool { return late(w.At) })
	return h
}

func newWorld(p *Plan, o Options) *world {
	w := &world{plan: p, options: o, chance: chance{p.Seed}, net: newNetwork(), clients: map[int]*client{},
		daprds: map[string]*sidecar{}, pausers: p.pausers()}
	w.rec = checker.NewRecorder("sim/"+p.Profile, p.Seed, o.Mutant.Name, p.Constants(), nil)
	w.dice = &dice{chance: w.chance, what: "dice"}
	nonces := &dice{chance: w.chance, what: "nonce"}
	w.memory = memory.New(memory.Options{Partitions: p.Partitions, MACKey: macKey(), Nonce: nonces.uint64})
	w.disk = wrap(o.Mutant.Disk, store.Store(w.memory))
	w.log = newAuditLog(w.rec, p.Partitions)
	for i := range p.Nodes {
		w.nodes = append(w.nodes, &node{w: w, number: i, door: door{actor: actorDoor + i*doorway}})
	}
	for i, name := range p.Endpoints {
		w.hosts = append(w.hosts, newEndpoint(w, i, name))
	}
	w.homes()
	for i := range p.Ops {
		number := p.Ops[i].Client
		if w.clients[number] == nil {
			w.clients[number] = &client{w: w, number: number, known: map[string]known{}}
		}
		w.clients[number].ops = append(w.clients[number].ops, &p.Ops[i])
	}
	return w
}

// homes tells the checker which partition each job is in, if there are nodes to tell apart.
func (w *world) homes() {
	if !w.plan.cluster() {
		return
	}
	for _, k := range w.plan.jobs() {
		w.rec.Home(k.Namespace, k.Name, store.PartitionOf(k, w.plan.Partitions))
	}
}

// fail notes that the harness itself could not do something.
func (w *world) fail(err error) {
	if err == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = append(w.failed, err)
}

// at is a moment of the plan.
func (w *world) at(d time.Duration) time.Time { return w.plan.Start.Add(d) }

// live lets everybody do what the plan says.
func (w *world) live(ctx context.Context) {
	for i := range w.plan.Workers { // all of them before anybody looks for one
		wk := newWorker(w, i)
		w.net.workers[wk.plan.Name] = wk
	}
	for i := range w.plan.Sidecars {
		k := newSidecar(w, i)
		w.daprds[k.plan.Name] = k
	}
	var wg sync.WaitGroup
	for i := range w.plan.Faults {
		wg.Go(func() { w.inflict(ctx, i) })
	}
	for _, c := range w.clients {
		wg.Go(c.run)
	}
	for _, wk := range w.net.workers {
		wg.Go(wk.run)
	}
	for _, k := range w.daprds {
		wg.Go(k.run)
	}
	wg.Go(func() {
		pauseUntil(actorNemesis, w.at(w.plan.Busy))
		w.rec.Heal()
	})
	wg.Go(func() {
		pauseUntil(actorFinal, w.at(w.plan.Busy+w.plan.Calm))
		final, err := w.final(ctx)
		w.fail(err)
		w.rec.Finish(final)
		w.fail(w.clear(ctx))
		pauseUntil(actorFinal, w.at(w.plan.Busy+w.plan.Calm+afterEnd-time.Millisecond))
		w.left = w.slots()
	})
	wg.Wait()
}

// inflict does one fault and takes it back.
func (w *world) inflict(ctx context.Context, i int) {
	f := w.plan.Faults[i]
	actor := actorFault + min(i, maxFaults-1)
	pauseUntil(actor, w.at(f.At))
	var targets []string
	if f.Worker != "" {
		targets = []string{f.Worker}
	}
	skew := time.Duration(0)
	if f.Kind == Clock {
		skew = f.Delay
	}
	n := w.nodes[min(f.Node, len(w.nodes)-1)]
	if w.plan.cluster() && targets == nil {
		targets = []string{n.name()}
	}
	switch {
	case f.cluster():
		w.inflictCluster(ctx, n, f, actor)
		return
	case f.Kind == QueuePaused:
		w.pauseQueue(f, actor)
		return
	}
	minor := w.plan.cluster() && f.Kind == Kill
	heal := w.rec.Break(checker.Fault{Kind: string(f.Kind), Targets: targets, Skew: skew, Minor: minor})
	switch f.Kind {
	case Kill:
		if !n.kill(ctx) { // a start that the store has put off until now
			break
		}
		pauseUntil(actor, w.at(f.At+f.For))
		for n.start(ctx) != nil { // the store fails too: somebody restarts it until it works
			pause(actor, 200*time.Millisecond)
		}
	case StreamCut:
		if wk := w.net.workers[f.Worker]; wk != nil {
			wk.cut()
		}
		if k := w.daprds[f.Worker]; k != nil {
			k.cut()
		}
	case SidecarHangs:
		wake := w.daprds[f.Worker].hang()
		pauseUntil(actor, w.at(f.At+f.For))
		wake()
	case WorkerStops:
		if wk := w.net.workers[f.Worker]; wk != nil {
			wk.stop()
			pauseUntil(actor, w.at(f.At+f.For))
			heal() // what it says when it goes on is not said in its sleep
			wk.wake()
			return
		}
	case EndpointDown:
		w.net.block(f.Worker, true)
		pauseUntil(actor, w.at(f.At+f.For))
		w.net.block(f.Worker, false)
	default:
		n.faults.add(f)
		pauseUntil(actor, w.at(f.At+f.For))
		n.faults.remove(f)
	}
	heal()
}
