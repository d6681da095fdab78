package transfer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// liveNode is a node of which something is copied.
type liveNode struct {
	Node

	owned   []uint32 // what it said to own
	checked *peerv1.FollowChecked
	shut    func() error // ends its call, once
	late    error        // it was shut, since it did not answer
	failed  error
}

// nodeEvent is what a node has answered, or why its call has ended.
type nodeEvent struct {
	of  *liveNode
	is  *peerv1.FollowResponse
	err error
}

// receive takes what a node sends, until its call ends.
func (l *liveCopy) receive(n *liveNode) {
	for {
		r, err := n.Stream.Recv()
		if err == nil {
			if err = l.received(r); err == nil && r.GetBatch() != nil {
				continue
			}
		}
		select {
		case l.events <- nodeEvent{n, r, err}:
		case <-l.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// received passes what belongs to a partition to its writer. A node sends it in its order.
func (l *liveCopy) received(r *peerv1.FollowResponse) error {
	switch what := r.GetWhat().(type) {
	case *peerv1.FollowResponse_Batch:
		b, err := codec.DecodeBatch(what.Batch.GetBatch())
		if err != nil {
			return fmt.Errorf("partition %d: %w", what.Batch.GetPartition(), err)
		}
		return l.pass(what.Batch.GetPartition(), written{batch: b, change: what.Batch.GetChange()})
	case *peerv1.FollowResponse_Copied:
		return l.pass(what.Copied.GetPartition(), written{copied: true})
	case *peerv1.FollowResponse_Lost:
		return l.pass(what.Lost.GetPartition(), written{again: true})
	}
	return nil
}

func (l *liveCopy) pass(partition uint32, is written) error {
	if l.to == nil || int(partition) >= l.h.Partitions {
		return fmt.Errorf("partition %d was not asked for", partition)
	}
	return l.to.put(l.ctx, int(partition), is)
}

// take notes what a node has answered.
func (l *liveCopy) take(e nodeEvent) {
	if e.err != nil {
		l.drop(e.of, e.err)
		return
	}
	switch what := e.is.GetWhat().(type) {
	case *peerv1.FollowResponse_Head:
		l.met(e.of, what.Head)
	case *peerv1.FollowResponse_Copied:
		l.copied[what.Copied.GetPartition()] = true
	case *peerv1.FollowResponse_Lost:
		p := what.Lost.GetPartition()
		l.of[p], l.copied[p] = nil, false
	case *peerv1.FollowResponse_Checked:
		e.of.checked = what.Checked
	}
}

// met notes what a node says of itself and the store.
func (l *liveCopy) met(n *liveNode, h *peerv1.FollowHead) {
	says := Head{Format: int(h.GetFormat()), Partitions: int(h.GetPartitions()), MACKey: h.GetMacKey(),
		Epoch: h.GetEpoch()}
	switch {
	case says.Format != store.Format():
		l.drop(n, fmt.Errorf("its store is of format %d, this program writes %d: use the carillon of its version", says.Format,
			store.Format()))
		return
	case l.h.MACKey == nil:
		l.h = says
	case says.Partitions != l.h.Partitions || !slices.Equal(says.MACKey, l.h.MACKey):
		l.drop(n, errors.New("it is a node of another store"))
		return
	}
	if l.of == nil {
		l.h.Epoch = max(l.h.Epoch, says.Epoch)
	}
	n.owned = slices.DeleteFunc(h.GetOwned(), func(p uint32) bool { return int(p) >= l.h.Partitions })
}

// drop goes on without a node. What it had to copy is copied again.
func (l *liveCopy) drop(n *liveNode, err error) {
	if n.failed != nil {
		return
	}
	if n.late != nil {
		err = n.late
	}
	n.failed = fmt.Errorf("node %s: %w", n.Name, errors.Join(err, n.shut()))
	l.failed = n.failed
	if l.drops++; l.drops > mostDrops {
		l.cancel(n.failed)
	}
	l.nodes = slices.DeleteFunc(l.nodes, func(o *liveNode) bool { return o == n })
	for p := range l.of {
		if l.of[p] != n {
			continue
		}
		l.of[p], l.copied[p] = nil, false
		if err := l.to.put(l.ctx, p, written{again: true}); err != nil {
			return // the copy ends
		}
	}
}

// send sends a request to a node. Its call ends if that fails, which receive tells.
func (l *liveCopy) send(n *liveNode, r *peerv1.FollowRequest) { _ = n.Stream.Send(r) }

// ask sends a request to nodes, and waits until each has answered. One that does not, or not in time, is
// dropped, and then the result is false.
func (l *liveCopy) ask(nodes []*liveNode, r *peerv1.FollowRequest, within time.Duration) bool {
	late := time.NewTimer(within)
	defer late.Stop()
	waiting := map[*liveNode]bool{}
	for _, n := range nodes {
		waiting[n] = true
		l.send(n, r)
	}
	all := true
	for {
		maps.DeleteFunc(waiting, func(n *liveNode, _ bool) bool {
			all = all && n.failed == nil
			return n.failed != nil
		})
		if len(waiting) == 0 {
			return all
		}
		select {
		case e := <-l.events:
			l.take(e)
			if e.err == nil && answers(e.is, r) {
				delete(waiting, e.of)
			}
		case <-late.C:
			for n := range waiting { // the end of their calls comes as an event
				n.late = errors.Join(fmt.Errorf("it has not answered for %v", within), n.shut())
			}
		case <-l.ctx.Done():
			return false
		}
	}
}

// answers reports whether a response is the answer to a request.
func answers(is *peerv1.FollowResponse, r *peerv1.FollowRequest) bool {
	switch r.GetStep().(type) {
	case *peerv1.FollowRequest_Begin:
		return is.GetHead() != nil
	case *peerv1.FollowRequest_Hold:
		return is.GetHeld() != nil
	case *peerv1.FollowRequest_Check:
		return is.GetChecked() != nil
	case *peerv1.FollowRequest_Move:
		return is.GetMoved() != nil
	}
	return false
}

// close ends the calls.
func (l *liveCopy) close() error {
	l.cancel(nil)
	l.receivers.Wait()
	var all error
	for _, n := range l.called {
		all = errors.Join(all, n.shut())
	}
	return all
}
