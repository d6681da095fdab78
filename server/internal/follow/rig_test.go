package follow_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/follow"
	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// A rig is a store with some nodes, which write to it until it has moved.
const (
	partitions = 6
	perLane    = 2
	// pace is how often a lane writes: so that what is copied is not mostly changes.
	pace = 200 * time.Microsecond
	// moves is how often lanes go to another node, fewer than the attempts at an end, each of which such a move
	// may undo; and after how many writes on average.
	moves, stays = 4, 50
)

// direct is a store without a Submitter of its own.
type direct struct{ s store.Grouper }

// Submit implements [store.Submitter].
func (d direct) Submit(writes []store.Write, done func(error)) {
	go func() { done(d.s.ApplyGroup(context.Background(), writes)) }()
}

// node is a node of the rig.
type node struct {
	name    string
	tap     *follow.Tap
	address string
	server  *grpc.Server

	mu    sync.Mutex
	held  map[int]store.Term
	fails atomic.Int64 // so many marks that it writes fail
}

// marking is the store as a node has it when it marks partitions.
type marking struct {
	store.Store
	n *node
}

// Shard implements [store.Store].
func (m marking) Shard(p int, term store.Term) (store.Shard, error) {
	sh, err := m.Store.Shard(p, term)
	return markingShard{sh, m.n}, err
}

type markingShard struct {
	store.Shard
	n *node
}

// Apply implements [store.Shard].
func (s markingShard) Apply(ctx context.Context, b *store.Batch) error {
	if s.n.fails.Add(-1) >= 0 {
		return errMark
	}
	return s.Shard.Apply(ctx, b)
}

var errMark = errors.New("the mark is not written")

// Serves is what the node owns.
func (n *node) Serves() (out []store.Holding) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for p, term := range n.held {
		out = append(out, store.Holding{Partition: p, Term: term})
	}
	return out
}

type rig struct {
	*testing.T
	store *memory.Store
	nodes []*node
	lanes []*lane
	still bool                 // lanes stay at their nodes
	moved atomic.Int32         // how often lanes have gone to another node, or would have
	gone  atomic.Pointer[node] // it must not write any more
}

func newRig(t *testing.T, seed uint64, nodes int) *rig {
	r := &rig{T: t, store: memory.New(memory.Options{Partitions: partitions})}
	for i := range nodes {
		r.nodes = append(r.nodes, r.node(fmt.Sprint("n", i)))
	}
	for l := range partitions / perLane {
		r.lanes = append(r.lanes, newLane(r, l, rand.New(rand.NewPCG(seed, uint64(l)))))
	}
	for i, l := range r.lanes {
		l.next = r.lanes[(i+1)%len(r.lanes)]
	}
	return r
}

// node makes a node that serves what is copied.
func (r *rig) node(name string) *node {
	n := &node{name: name, tap: follow.NewTap(partitions), server: grpc.NewServer(), held: map[int]store.Term{}}
	follow.Register(n.server, follow.Source{Tap: n.tap, Store: marking{r.store, n}, Serves: n.Serves}, "secret", nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.Fatal(err)
	}
	n.address = l.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- n.server.Serve(l) }()
	r.Cleanup(func() {
		n.server.Stop()
		if err := <-ended; err != nil {
			r.Error(err)
		}
	})
	return n
}

// callAll calls the nodes of the rig.
func (r *rig) callAll(ctx context.Context, but []string) (all []transfer.Node, err error) {
	for _, n := range r.nodes {
		if !slices.Contains(but, n.name) {
			all = append(all, follow.Call(ctx, n.name, n.address, "secret", insecure.NewCredentials()))
		}
	}
	return all, nil
}

// play has all lanes write until end is called, or the store has moved.
func (r *rig) play() (end func()) {
	var running sync.WaitGroup
	stop := make(chan struct{})
	for _, l := range r.lanes {
		running.Go(func() { l.play(stop) })
	}
	r.lanes[0].baton <- 1
	return func() {
		close(stop)
		running.Wait()
	}
}

// lane writes to some partitions, on one node after the other. The lanes also pass on a number, which grows:
// a lane gets it when the one before it has it durable.
type lane struct {
	*rig
	first int // partition
	dice  *rand.Rand
	on    *node
	lines map[*node]*follow.Line
	baton chan uint64
	next  *lane
	shard [perLane]store.Shard
	jobs  [perLane]map[carillon.Key]bool // that are there
	step  int64
}

func newLane(r *rig, number int, dice *rand.Rand) *lane {
	l := &lane{rig: r, first: number * perLane, dice: dice, lines: map[*node]*follow.Line{}, baton: make(chan uint64, 1)}
	for _, n := range r.nodes {
		l.lines[n] = n.tap.Line(direct{r.store})
	}
	l.takeOver(r.nodes[number%len(r.nodes)])
	for range 200 {
		if err := l.write(0); err != nil {
			r.Fatal(err)
		}
	}
	return l
}

// takeOver hands the partitions over to a node.
func (l *lane) takeOver(n *node) {
	for i := range perLane {
		p := l.first + i
		if was := l.on; was != nil {
			was.mu.Lock()
			held := []store.Holding{{Partition: p, Term: was.held[p]}}
			delete(was.held, p)
			was.mu.Unlock()
			if err := l.store.Leaser().Release(l.Context(), was.name, held); err != nil {
				l.Error(err)
			}
		}
		terms, err := l.store.Leaser().Claim(l.Context(), n.name, []int{p}, time.Hour)
		if err != nil || terms[0].IsZero() {
			l.Errorf("claim %d: %v %v", p, terms, err)
		}
		if l.shard[i], err = l.store.Shard(p, terms[0]); err != nil {
			l.Error(err)
		}
		n.mu.Lock()
		n.held[p] = terms[0]
		n.mu.Unlock()
		l.jobs[i] = map[carillon.Key]bool{}
		all, err := l.shard[i].List(l.Context(), store.ListQuery{Limit: 1 << 20})
		if err != nil {
			l.Error(err)
		}
		for _, r := range all {
			l.jobs[i][r.Key] = true
		}
	}
	l.on = n
}

func (l *lane) play(stop <-chan struct{}) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		var number uint64
		select {
		case <-stop:
			return
		case number = <-l.baton:
		case <-tick.C:
		}
		if !l.still && l.dice.IntN(stays) == 0 && l.moved.Add(1) <= moves {
			l.takeOver(l.nodes[l.dice.IntN(len(l.nodes))])
		}
		if l.on == l.gone.Load() {
			l.takeOver(l.nodes[0])
		}
		if err := l.write(number); err != nil {
			if !errors.Is(err, store.ErrMoved) && !errors.Is(err, store.ErrFenced) {
				l.Errorf("write: %v", err)
			}
			return
		}
		if number > 0 {
			l.next.baton <- number + 1
		}
	}
}

// write makes a batch of each partition durable, with a number if there is one.
func (l *lane) write(number uint64) error {
	l.step++
	var writes []store.Write
	var numbers []int
	for i := range perLane {
		b := l.batch(i)
		if number > 0 {
			b.MetaRecords = append(b.MetaRecords, store.MetaRecord{Kind: store.KindTold, Key: "baton",
				Value: fmt.Append(nil, number)})
		}
		writes, numbers = append(writes, store.Write{Shard: l.shard[i], Batch: b}), append(numbers, l.first+i)
	}
	outcome := make(chan error)
	l.lines[l.on].Submit(numbers, writes, func(err error) { go func() { outcome <- err }() })
	return <-outcome
}

// batch makes up a change.
func (l *lane) batch(i int) *store.Batch {
	b := &store.Batch{}
	key := func() carillon.Key {
		return carillon.Key{Namespace: "ns", Name: fmt.Sprintf("%d-%d", l.first+i, l.dice.IntN(40))}
	}
	for touched := map[carillon.Key]bool{}; len(touched) < 3; {
		k := key()
		if touched[k] {
			continue
		}
		touched[k] = true
		state := store.State{UID: store.NewUID(k, [8]byte{1}), Due: l.step, Generation: uint64(l.step)}
		switch n := l.dice.IntN(10); {
		case n == 0:
			b.Deletes = append(b.Deletes, store.Ref{Key: k})
			delete(l.jobs[i], k)
		case n < 5 && l.jobs[i][k]: // the state alone
			b.Puts = append(b.Puts, store.Record{Ref: store.Ref{Key: k}, State: state})
		default:
			b.Puts = append(b.Puts, store.Record{Ref: store.Ref{Key: k}, State: state, Spec: fmt.Append(nil, "spec ", l.step)})
			l.jobs[i][k] = true
			if n == 9 { // a pending run, which has the spec of its job
				b.Puts = append(b.Puts, store.Record{Ref: store.Ref{Key: k, Seq: uint64(l.step)}, State: state})
			}
		}
	}
	k := key()
	run := store.RunRecord{Key: k, Status: carillon.RunDead, Finished: l.step, Expires: l.step,
		ID: store.RunID{Partition: uint16(l.first + i), UID: store.NewUID(k, [8]byte{1}), Scheduled: l.step}}
	if l.dice.IntN(4) > 0 {
		run.Status = carillon.RunSucceeded
	}
	b.Runs = append(b.Runs, run)
	switch l.dice.IntN(6) {
	case 0, 1:
		b.Trims = append(b.Trims, store.Trim{Key: k, Keep: l.dice.IntN(4)})
	case 2:
		b.Expire = &store.Expire{Before: l.step - 300, Most: 100, Limit: 10}
	}
	b.MetaRecords = append(b.MetaRecords, store.MetaRecord{Kind: store.KindQueue, Key: fmt.Sprint(l.dice.IntN(20)),
		Value: fmt.Append(nil, l.step)})
	return b
}
