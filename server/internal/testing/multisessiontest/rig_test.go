package multisessiontest_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/multisession"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
	sessions "github.com/carillonhq/carillon/server/internal/dispatch/worker"
)

const lease = 10 * time.Second

var queue = delivery.Queue{Namespace: "default", Kind: "worker", Address: "q"}

// rig is a cluster with real hubs. In place of engines there are lists of runs; what is said of a run on
// any node is known to all, as if the nodes passed it on.
type rig struct {
	t *testing.T

	mu       sync.Mutex
	nodes    map[string]*testNode // by address
	held     map[string]*held     // by token
	accepted map[string]bool      // by token: its result was
	done     map[string]int       // by run
	orphans  []string             // runs without a node
	made     int                  // tokens so far
	waiting  int                  // runs that are not done
	all      chan struct{}        // closed when none is
}

// held is an attempt that somebody has, or has lost.
type held struct {
	run   string
	alive time.Time
}

// testNode is a node: the runs of its partition, and its hub.
type testNode struct {
	rig          *rig
	address      string
	hub          *dispatch.Hub
	bell         chan struct{}
	sent         atomic.Int32 // slots that came while it waited
	stop         chan struct{}
	stopped      chan struct{}
	losesResults bool        // results get lost
	isolated     atomic.Bool // nothing comes through to it or from it
	beats        atomic.Int32
	backlog      []string // guarded by the rig's lock
}

func newRig(t *testing.T, addresses ...string) *rig {
	w := &rig{t: t, nodes: map[string]*testNode{}, held: map[string]*held{}, accepted: map[string]bool{},
		done: map[string]int{}, all: make(chan struct{})}
	for _, a := range addresses {
		w.start(a)
	}
	t.Cleanup(func() {
		for _, d := range w.living() {
			w.kill(d.address)
		}
	})
	return w
}

// start lets a node come.
func (w *rig) start(address string) {
	d := &testNode{rig: w, address: address, bell: make(chan struct{}, 1), stop: make(chan struct{}),
		stopped: make(chan struct{})}
	d.hub = dispatch.New(d, dispatch.Options{Accept: sessions.Accept(sessions.Options{})})
	w.mu.Lock()
	w.nodes[address] = d
	w.inherit(nil)
	w.mu.Unlock()
	go d.work()
	w.tellNodes()
}

// kill ends a node. Another takes its runs over, or the next to come.
func (w *rig) kill(address string) {
	w.mu.Lock()
	d := w.nodes[address]
	delete(w.nodes, address)
	w.mu.Unlock()
	close(d.stop)
	<-d.stopped
	if err := d.hub.Close(); err != nil {
		w.t.Error(err)
	}
	w.mu.Lock()
	w.inherit(d.backlog)
	w.mu.Unlock()
	w.tellNodes()
}

// inherit gives the first node runs that have none. The lock is held.
func (w *rig) inherit(runs []string) {
	w.orphans = append(w.orphans, runs...)
	if all := w.sorted(); len(all) > 0 {
		all[0].backlog = append(all[0].backlog, w.orphans...)
		w.orphans = nil
		all[0].ring()
	}
}

func (w *rig) living() []*testNode {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sorted()
}

func (w *rig) sorted() []*testNode {
	var all []*testNode
	for _, d := range w.nodes {
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b *testNode) int { return cmp.Compare(a.address, b.address) })
	return all
}

// tellNodes tells every node where all are.
func (w *rig) tellNodes() {
	all := w.living()
	for _, d := range all {
		addresses := []string{d.address}
		for _, o := range all {
			if o != d {
				addresses = append(addresses, o.address)
			}
		}
		d.hub.SetNodes(addresses)
	}
}

// reach opens a session with the node at an address.
func (w *rig) reach(ctx context.Context, address string, hello carillon.Hello) (carillon.Session, error) {
	w.mu.Lock()
	d := w.nodes[address]
	w.mu.Unlock()
	if d == nil {
		return nil, carillon.Errorf(carillon.Unavailable, "", "nobody is at %s", address)
	}
	s, err := d.hub.Connect(ctx, hello)
	return connection{s, d}, err
}

// connection is one to a node, which may lead nowhere for a while: what is on it then arrives afterwards.
type connection struct {
	carillon.Session
	to *testNode
}

// passable waits until the way leads somewhere.
func (y connection) passable(ctx context.Context) error {
	for y.to.isolated.Load() {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Send implements carillon.Session.
func (y connection) Send(ctx context.Context, req carillon.WorkRequest) error {
	if err := y.passable(ctx); err != nil {
		return err
	}
	return y.Session.Send(ctx, req)
}

// Receive implements carillon.Session.
func (y connection) Receive(ctx context.Context) (carillon.WorkResponse, error) {
	r, err := y.Session.Receive(ctx)
	if cut := y.passable(ctx); cut != nil {
		return carillon.WorkResponse{}, cut
	}
	return r, err
}

// vanish takes a node that is cut off out of the cluster. end ends it, when it is no use to be cut off any
// more.
func (w *rig) vanish(address string) (end func()) {
	w.mu.Lock()
	d := w.nodes[address]
	delete(w.nodes, address)
	w.inherit(d.backlog)
	w.mu.Unlock()
	w.tellNodes()
	return func() {
		close(d.stop)
		<-d.stopped
		if err := d.hub.Close(); err != nil {
			w.t.Error(err)
		}
	}
}

// Connect implements carillon.Work: through the first node that lives.
func (w *rig) Connect(ctx context.Context, hello carillon.Hello) (carillon.Session, error) {
	hello.Direct = true
	for _, d := range w.living() {
		if s, err := w.reach(ctx, d.address, hello); err == nil {
			return multisession.Open(s, multisession.Options{Hello: hello, Connect: w.reach}), nil
		}
	}
	return nil, carillon.Errorf(carillon.Unavailable, "", "nobody is there")
}

// put gives runs to a node.
func (w *rig) put(address string, from, to int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.nodes[address]
	for i := from; i < to; i++ {
		d.backlog = append(d.backlog, fmt.Sprintf("run %05d", i))
		w.waiting++
	}
	d.ring()
}

func (d *testNode) ring() {
	select {
	case d.bell <- struct{}{}:
	default:
	}
}

// work hands out runs, and takes those back whose leases have ended.
func (d *testNode) work() {
	defer close(d.stopped)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-d.bell:
			d.handOut()
		case <-tick.C:
			d.reap()
		case <-d.stop:
			return
		}
	}
}

func (d *testNode) handOut() {
	w := d.rig
	w.mu.Lock()
	want := len(d.backlog)
	w.mu.Unlock()
	sent := int(d.sent.Swap(0))
	slots := sent + offer(d.hub, 1, queue, want-sent, delivery.Head{}).N
	rest := delivery.Rest{Queue: queue, Unused: max(0, slots-want), N: max(0, want-slots)}
	var ds []delivery.Delivery
	w.mu.Lock()
	for range slots - rest.Unused {
		w.made++
		token := fmt.Sprintf("token %05d of %s", w.made, d.address)
		run := d.backlog[0]
		d.backlog = d.backlog[1:]
		w.held[token] = &held{run, time.Now()}
		ds = append(ds, delivery.Delivery{Partition: 1, Queue: queue,
			Run: &carillon.Run{ID: run, Token: token, Queue: "q", Job: run, Started: time.Now(), Lease: lease}})
	}
	w.mu.Unlock()
	d.hub.Deliver(1, ds, []delivery.Rest{rest})
}

func (d *testNode) reap() {
	w := d.rig
	w.mu.Lock()
	var late []string
	for token, h := range w.held {
		if time.Since(h.alive) > lease {
			late = append(late, token)
		}
	}
	slices.Sort(late)
	w.mu.Unlock()
	d.Undelivered(late)
}

// Reports implements dispatch.Sink.
func (d *testNode) Reports(rs []delivery.Report) {
	if d.losesResults {
		return
	}
	for i := range rs {
		r := &rs[i]
		switch accepted := d.rig.report(&r.Result); {
		case !accepted:
			r.From.Stale(r.Token)
		case r.Outcome != carillon.OutcomeProgress:
			r.From.Accepted(r.Token)
		}
	}
}

// report takes what is said of an attempt, and accepts what it has accepted before.
func (w *rig) report(r *carillon.Result) (accepted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.held[r.Token]
	switch {
	case h == nil:
		return w.accepted[r.Token]
	case r.Outcome == carillon.OutcomeProgress:
		return true
	}
	delete(w.held, r.Token)
	w.accepted[r.Token] = true
	if w.done[h.run]++; w.done[h.run] == 1 {
		if w.waiting--; w.waiting == 0 {
			close(w.all)
		}
	}
	return true
}

// Heartbeats implements dispatch.Sink.
func (d *testNode) Heartbeats(bs []carillon.Heartbeat, from delivery.Reporter) {
	w := d.rig
	d.beats.Add(int32(len(bs)))
	for _, b := range bs {
		w.mu.Lock()
		h := w.held[b.Token]
		if h != nil {
			h.alive = time.Now()
		}
		w.mu.Unlock()
		if h == nil {
			from.Stale(b.Token)
		}
	}
}

// Slots implements dispatch.Sink.
func (d *testNode) Slots(_ delivery.Owner, _ delivery.Queue, n int) {
	d.sent.Add(int32(n))
	d.ring()
}

// Consumers implements dispatch.Sink.
func (d *testNode) Consumers(delivery.Queue) { d.ring() }

// Lost implements dispatch.Sink.
func (d *testNode) Lost(tokens []string) { d.Undelivered(tokens) }

// Undelivered implements dispatch.Sink.
func (d *testNode) Undelivered(tokens []string) {
	w := d.rig
	w.mu.Lock()
	defer w.mu.Unlock()
	var runs []string
	for _, token := range tokens {
		if h := w.held[token]; h != nil {
			delete(w.held, token)
			runs = append(runs, h.run)
		}
	}
	if w.nodes[d.address] != d { // it is ending
		w.inherit(runs)
		return
	}
	d.backlog = append(d.backlog, runs...)
	d.ring()
}

// meter is a Work that watches that a worker never gets more than it granted, session by session.
type meter struct {
	carillon.Work
	t *testing.T
}

// Connect implements carillon.Work.
func (m meter) Connect(ctx context.Context, hello carillon.Hello) (carillon.Session, error) {
	s, err := m.Work.Connect(ctx, hello)
	if err != nil {
		return nil, err
	}
	return &metered{Session: s, t: m.t}, nil
}

type metered struct {
	carillon.Session
	t       *testing.T
	mu      sync.Mutex
	credits int
}

// Send implements carillon.Session.
func (m *metered) Send(ctx context.Context, req carillon.WorkRequest) error {
	m.mu.Lock()
	for _, c := range req.Credits {
		m.credits += c.N
	}
	m.mu.Unlock()
	return m.Session.Send(ctx, req)
}

// Receive implements carillon.Session.
func (m *metered) Receive(ctx context.Context) (carillon.WorkResponse, error) {
	r, err := m.Session.Receive(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.credits -= len(r.Runs); m.credits < 0 {
		m.t.Errorf("%d runs came that nobody asked for", -m.credits)
	}
	return r, err
}

// offer asks for slots of one queue.
func offer(h *dispatch.Hub, p int, q delivery.Queue, want int, head delivery.Head) delivery.Slots {
	lineup := []delivery.Waiting{{Queue: q, N: want, Now: want, Head: head}}
	h.Offer(delivery.Owner{Partition: p}, lineup)
	return lineup[0].Slots
}
