package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	"github.com/carillonhq/carillon/server/store"
)

// Node is a node that is asked for what its partitions hold (package follow).
type Node struct {
	Name   string
	Stream Stream
	Close  func() error
}

// Stream is the call FollowService.Follow.
type Stream interface {
	Send(*peerv1.FollowRequest) error
	Recv() (*peerv1.FollowResponse, error)
}

// Nodes calls the nodes that live, but for those of these names. The calls end with ctx. After an error the
// nodes that were called are returned, too.
type Nodes func(ctx context.Context, but []string) ([]Node, error)

const (
	// epochsAhead is how far the epochs of a store may come while it is copied, at all attempts together. Each
	// start of Pebble is 2^32 of them.
	epochsAhead = 1 << 36
	// retryEvery is how often nodes are asked for partitions that none of them has.
	retryEvery = 500 * time.Millisecond
	// ownerWithin is how long a partition may be without a node.
	ownerWithin = time.Minute
	// mostCuts is how often it is tried to end a copy, and mostDrops how often the calls of nodes may fail.
	mostCuts, mostDrops = 5, 5
	// answerWithin is how long a node may take to answer, and sumWithin while it sums up what it holds.
	answerWithin, sumWithin = 20 * time.Second, 10 * time.Minute
)

// MigrateLive moves what a store holds to another while nodes serve it.
//
//	from   served ───── copied, followed ───── held ─ marked as moved ─ its nodes end
//	to     created, frozen, marked ── written ── read ──────────────── mark removed, released
//
// If it is killed after the mark, [Migrate] ends what it began; before, nothing has changed.
func MigrateLive(ctx context.Context, from Nodes, open Open, p Progress) (Result, error) {
	return live(ctx, from, open, p, true)
}

// CopyLive writes what a store holds to another, while nodes serve it, which go on. The copy is as of one
// moment.
func CopyLive(ctx context.Context, from Nodes, open Open, p Progress) error {
	_, err := live(ctx, from, open, p, false)
	return err
}

func live(ctx context.Context, from Nodes, open Open, p Progress, moves bool) (result Result, err error) {
	l, cancel := newLiveCopy(ctx, from)
	l.sums = moves
	defer func() { err = errors.Join(err, l.close()) }()
	if err := l.begin(); err != nil {
		return result, err
	}
	f, work, end, err := target(l.ctx, l.h, epochsAhead, open, false)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, end()) }()
	defer context.AfterFunc(work, func() { cancel(context.Cause(work)) })()
	to := newStoreSink(l.ctx, f, p, cancel)
	defer to.stop()
	l.to = to
	err = l.end(func(c cut) error {
		if err := f.above(c.epoch); err != nil {
			return err
		}
		to.stop()
		if !moves {
			return nil
		}
		if result, err = f.compare(l.ctx, c.sums); err != nil {
			return err
		}
		return l.move(c.held)
	})
	if err != nil {
		return result, cause(l.ctx, err)
	}
	return result, f.finish(work)
}

// liveCopy is a store that is copied while nodes serve it. Its methods are of one goroutine.
//
//	a node ── receive ─┬─ batches of a partition ──> the sink
//	                   └─ everything else ── events ──> liveCopy
type liveCopy struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	from   Nodes
	sums   bool // nodes are to sum up what they hold
	goesOn bool // it is a journal: nodes remove finished runs as always once all contents have come
	h      Head // of the store
	to     sink

	nodes     []*liveNode // that answer
	called    []*liveNode // all
	receivers sync.WaitGroup
	events    chan nodeEvent
	of        []*liveNode // by partition: the node that copies it; nil: none
	copied    []bool      // by partition: all of it has come
	failed    error       // of the last node that was dropped
	drops     int         // since everything had come the last time
}

// sink is where what is copied goes. It is safe for concurrent use.
type sink interface {
	// put passes something of a partition on. What was put of one before keeps its place before it.
	put(ctx context.Context, partition int, is written) error
	// flush returns when everything that was put is there.
	flush(ctx context.Context) error
}

func newLiveCopy(ctx context.Context, from Nodes) (*liveCopy, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	return &liveCopy{ctx: ctx, cancel: cancel, from: from, events: make(chan nodeEvent)}, cancel
}

// ErrNoNode is the error of what needs the nodes of a store, if none is there.
var ErrNoNode = errors.New("no node of the store answers")

// begin calls the nodes.
func (l *liveCopy) begin() error {
	if err := l.call(); err != nil {
		return err
	}
	if len(l.nodes) == 0 {
		return errors.Join(ErrNoNode, l.failed)
	}
	l.of, l.copied = make([]*liveNode, l.h.Partitions), make([]bool, l.h.Partitions)
	return nil
}

// call calls nodes that have not been called.
func (l *liveCopy) call() error {
	var names []string
	for _, n := range l.nodes {
		names = append(names, n.Name)
	}
	found, err := l.from(l.ctx, names)
	for _, n := range found {
		node := &liveNode{Node: n, shut: sync.OnceValue(n.Close)}
		l.nodes, l.called = append(l.nodes, node), append(l.called, node)
		l.receivers.Go(func() { l.receive(node) })
	}
	if err != nil {
		return err
	}
	l.ask(l.nodes, beginStep(), answerWithin)
	return l.ctx.Err()
}

// copyAll copies until everything has come.
func (l *liveCopy) copyAll() error { return l.rest(0) }

// rest copies until everything has come and a time has passed.
func (l *liveCopy) rest(least time.Duration) error {
	passed := time.NewTimer(least)
	defer passed.Stop()
	tick := time.NewTicker(retryEvery)
	defer tick.Stop()
	since := time.Now()
	if err := l.assign(); err != nil {
		return err
	}
	for early := least > 0; early || l.incomplete(); {
		select {
		case e := <-l.events:
			l.take(e)
			continue
		case <-passed.C:
			early = false
			continue
		case <-tick.C:
		case <-l.ctx.Done():
			return l.ctx.Err()
		}
		p := slices.Index(l.of, nil)
		if p < 0 {
			since = time.Now()
			continue
		}
		if time.Since(since) > ownerWithin {
			return errors.Join(fmt.Errorf("no node that answers has had partition %d for %v", p, ownerWithin), l.failed)
		}
		if err := l.call(); err != nil {
			return err
		}
		if err := l.assign(); err != nil {
			return err
		}
	}
	return nil
}

// assign asks nodes for what nobody copies.
func (l *liveCopy) assign() error {
	for _, n := range l.nodes {
		var mine []uint32
		for _, p := range n.owned {
			if l.of[p] == nil {
				l.of[p] = n
				mine = append(mine, p)
			}
		}
		if len(mine) > 0 {
			l.send(n, copyStep(mine, !l.goesOn))
		}
	}
	return l.ctx.Err()
}

// end copies until everything has come, and calls then while all nodes hold. Its error is returned.
func (l *liveCopy) end(then func(cut) error) error {
	for range mostCuts {
		if err := l.copyAll(); err != nil {
			return err
		}
		if done, err := l.cut(then); done || err != nil {
			return err
		}
	}
	return errors.Join(fmt.Errorf("the nodes could not be stopped for a moment, or partitions have changed their nodes, at each of "+
		"%d attempts", mostCuts), l.failed)
}

// cut is what nodes say while all of them hold.
type cut struct {
	held  []*liveNode
	sums  map[uint32]*peerv1.FollowSum // by partition: all of them
	epoch uint64                       // no term of the store has a greater one
}

// cut calls then while all nodes hold, and everything that they hold has come. It reports false if something
// must be copied again before.
func (l *liveCopy) cut(then func(cut) error) (done bool, err error) {
	if err := l.to.flush(l.ctx); err != nil { // so that little is to be waited for while nodes hold
		return false, err
	}
	c := cut{held: slices.Clone(l.nodes), sums: map[uint32]*peerv1.FollowSum{}}
	defer func() { // those that have moved end, the others go on
		for _, n := range c.held {
			l.send(n, releaseStep())
		}
	}()
	if !l.ask(c.held, holdStep(l.sums), answerWithin) {
		return false, l.ctx.Err()
	}
	if err := l.to.flush(l.ctx); err != nil || l.incomplete() {
		return false, err
	}
	if !l.ask(c.held, checkStep(l.sums), sumWithin) || l.incomplete() {
		return false, l.ctx.Err()
	}
	for _, n := range c.held {
		c.epoch = max(c.epoch, n.checked.GetEpoch())
		for _, sum := range n.checked.GetSums() {
			c.sums[sum.GetPartition()] = sum
		}
	}
	if len(c.sums) < l.h.Partitions {
		return false, nil
	}
	l.drops = 0
	err = then(c)
	return err == nil, err
}

// incomplete reports whether something is to be copied again.
func (l *liveCopy) incomplete() bool {
	return slices.Contains(l.of, nil) || slices.Contains(l.copied, false)
}

// move marks the partitions of all nodes as moved: first those of the node that has the first one, whose mark
// is that of the store.
func (l *liveCopy) move(held []*liveNode) error {
	first := l.of[0]
	rest := slices.DeleteFunc(slices.Clone(held), func(n *liveNode) bool { return n == first })
	mark := func(nodes []*liveNode, undo bool) bool { return l.ask(nodes, moveStep(undo), answerWithin) }
	if mark([]*liveNode{first}, false) && mark(rest, false) && !l.incomplete() {
		return nil
	}
	// A node that has failed has taken its marks away by itself, or ends.
	answer := func(n *liveNode) bool { return n.failed == nil }
	undone := mark(slices.DeleteFunc(rest, func(n *liveNode) bool { return !answer(n) }), true)
	if answer(first) {
		undone = mark([]*liveNode{first}, true) && undone
	}
	if why := cause(l.ctx, l.failed); why == nil {
		return errors.New("partitions have changed their nodes at the last moment: the nodes go on")
	} else if undone {
		return fmt.Errorf("a node could not be moved, and the others go on: %w", why)
	} else {
		return fmt.Errorf("a node could not be moved, and others may have been: run it again with the nodes stopped: %w", why)
	}
}

// above is an error if terms of a store are not below those of the new one.
func (f *frozen) above(epoch uint64) error {
	for _, h := range f.held {
		if h.Term.Epoch <= epoch {
			return fmt.Errorf("the terms of the store have come to epoch %d, and those of partition %d of the new one to %d only: "+
				"remove that, and begin again", epoch, h.Partition, h.Term.Epoch)
		}
	}
	return nil
}

// compare sums up what has been written, and compares it with what nodes say of each partition.
func (f *frozen) compare(ctx context.Context, sums map[uint32]*peerv1.FollowSum) (Result, error) {
	var all tally
	parts := make([]tally, len(f.shards))
	err := f.Each(ctx, func(_ context.Context, partition int, b *store.Batch) error {
		return errors.Join(parts[partition].add(partition, b, nil), all.add(partition, b, nil))
	})
	if err != nil {
		return Result{}, fmt.Errorf("read back: %w", err)
	}
	for p := range parts {
		there, sum := parts[p].result(), sums[uint32(p)]
		has := Counts{sum.GetRecords(), sum.GetRuns(), sum.GetMeta()}
		if there.Counts != has || there.Digest.String() != sum.GetDigest() {
			return Result{}, fmt.Errorf("what was copied of partition %d is not what it holds: %+v %s, not %+v %s", p,
				there.Counts, there.Digest, has, sum.GetDigest())
		}
	}
	return all.result(), nil
}
