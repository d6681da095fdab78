package etcd

import (
	"bytes"
	"context"
	"errors"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/carillonhq/carillon/server/store"
)

// committer writes batches. Those of several partitions that wait at the same time go in one transaction, as
// far as etcd's bounds allow: it compares the head of each with what the batch was made from. If one differs
// nothing is written, and the others are written by themselves.
//
//	Apply(p) ──┐
//	Apply(q) ──┼─▶ in ─▶ run: pack ─▶ send ─▶ etcd: if the heads of p, q are as they were,
//	Apply(r) ──┘          at most inFlight          then all operations and the heads, else read the heads
type committer struct {
	s     *Store
	in    chan *commit
	slots chan struct{}
	ended chan struct{}
	sends sync.WaitGroup
}

const (
	// inFlight is how many transactions are on their way at once. Meanwhile others gather.
	inFlight = 4
	// queued is how many batches may wait for a transaction.
	queued = 256
)

// commit is a batch that is written in one transaction.
type commit struct {
	r        *replica
	head     []byte
	revision int64 // of the head, which the batch was made from
	ops      []*pb.RequestOp
	size     int
	done     chan committed
}

// committed is how a commit ended.
type committed struct {
	revision int64
	err      error
}

// errSplit: etcd takes fewer operations than was thought. Nothing was written.
var errSplit = errors.New("store: the batch does not fit into a transaction of etcd")

func newCommitter(s *Store) *committer {
	c := &committer{s: s, in: make(chan *commit, queued), slots: make(chan struct{}, inFlight),
		ended: make(chan struct{})}
	go c.run()
	return c
}

// close waits for what is on its way. Nothing is written after it.
func (c *committer) close() {
	close(c.in)
	<-c.ended
	c.sends.Wait()
}

// write writes operations that were made from a version of a partition, and returns the new revision of its
// head. The caller holds the replica's lock.
func (c *committer) write(r *replica, from *version, ops []*pb.RequestOp, size int) (int64, error) {
	w := &commit{r: r, head: from.head, revision: from.revision, ops: ops, size: size,
		done: make(chan committed, 1)}
	c.in <- w
	out := <-w.done
	return out.revision, out.err
}

func (c *committer) run() {
	defer close(c.ended)
	var left *commit // has not fitted into the last pack
	for {
		first := left
		if first == nil {
			var open bool
			if first, open = <-c.in; !open {
				return
			}
		}
		c.slots <- struct{}{}
		var pack []*commit
		pack, left = c.gather(first)
		c.sends.Go(func() {
			c.send(pack)
			<-c.slots
		})
	}
}

// gather packs a commit together with what waits, as much as fits.
func (c *committer) gather(first *commit) (pack []*commit, left *commit) {
	most := int(c.s.wire.mostOps.Load())
	pack = append(pack, first)
	ops, size := len(first.ops)+1, first.size
	for {
		select {
		case next, open := <-c.in:
			if !open {
				return pack, nil
			}
			ops, size = ops+len(next.ops)+1, size+next.size
			if ops > most || size > mostBytes || comparesEach*(len(pack)+1) > most {
				return pack, next
			}
			pack = append(pack, next)
		default:
			return pack, nil
		}
	}
}

// comparesEach is how many comparisons a commit needs.
const comparesEach = 2

// send writes a pack.
func (c *committer) send(pack []*commit) {
	t := &pb.TxnRequest{}
	for _, w := range pack {
		key := c.s.keys.head(w.r.number)
		t.Compare = append(t.Compare, unchanged(key, w.revision), has(key, w.head))
		t.Success = append(append(t.Success, w.ops...), put(key, w.head))
		t.Failure = append(t.Failure, reading(one(key)))
	}
	answer, err := c.s.wire.txn(context.Background(), t)
	switch {
	case is(err, rpctypes.ErrGRPCTooManyOps):
		c.s.wire.mostOps.Store(usualOps)
		for _, w := range pack {
			w.done <- committed{err: errSplit}
		}
	case err != nil:
		for _, w := range pack {
			w.done <- committed{err: applyFailure(err)}
		}
	case answer.Succeeded:
		c.s.heads.saw(answer.Header.Revision)
		for _, w := range pack {
			w.done <- committed{revision: answer.Header.Revision}
		}
	default:
		for i, w := range pack {
			found := answer.Responses[i].GetResponseRange().GetKvs()
			if len(pack) > 1 && len(found) == 1 && found[0].ModRevision == w.revision &&
				bytes.Equal(found[0].Value, w.head) {
				c.send([]*commit{w}) // it is not the one that differs
				continue
			}
			w.done <- committed{err: store.ErrFenced}
		}
	}
}
