package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
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
	r    *replica
	from headAt // what the batch was made from
	head []byte // what it writes
	ops  []*pb.RequestOp
	size int
	done chan committed
}

// committed is how a commit ended.
type committed struct {
	at  headAt
	err error
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

// write writes operations that were made from a version of a partition, and returns its new head. The caller
// holds the replica's lock.
func (c *committer) write(r *replica, from *version, ops []*pb.RequestOp, size int) (headAt, error) {
	w := &commit{r: r, from: from.headAt, head: batchHead(from.head), ops: ops, size: size,
		done: make(chan committed, 1)}
	c.in <- w
	out := <-w.done
	return out.at, out.err
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

// end tells each commit of a pack how it ended.
func end(pack []*commit, err error) {
	for _, w := range pack {
		w.done <- committed{err: err}
	}
}

// applied tells the commits of a pack that they were written at a revision.
func (c *committer) applied(pack []*commit, revision int64) {
	c.s.heads.saw(revision)
	for _, w := range pack {
		w.done <- committed{at: headAt{w.head, revision}}
	}
}

// send writes a pack. A transaction whose answer does not come, because etcd changes its leader or a member
// ends, is sent again until it is known how it ended: it compares the heads that it was made from, so it is
// done once at most, and the heads that it writes tell whether it was.
func (c *committer) send(pack []*commit) {
	t := &pb.TxnRequest{}
	for _, w := range pack {
		key := c.s.keys.head(w.r.number)
		t.Compare = append(t.Compare, unchanged(key, w.from.revision), has(key, w.from.head))
		t.Success = append(append(t.Success, w.ops...), put(key, w.head))
		t.Failure = append(t.Failure, reading(one(key)))
	}
	over, cancel := context.WithTimeout(context.Background(), c.s.opt.Timeout)
	defer cancel()
	again := false // it was sent, and there is no answer
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		answer, err := c.s.wire.commit(over, t)
		unknown := err != nil && store.OutcomeOf(applyFailure(err)) == store.Unknown
		again = again || unknown
		switch {
		case (unknown || elsewhere(err)) && wait(over, pause):
			continue
		case is(err, rpctypes.ErrGRPCTooManyOps) && !again:
			c.s.wire.mostOps.Store(usualOps)
			end(pack, errSplit)
		case err != nil && again:
			end(pack, fmt.Errorf("%w: etcd: %w", store.ErrUnknown, err))
		case err != nil:
			end(pack, applyFailure(err))
		case answer.Succeeded:
			c.applied(pack, answer.Header.Revision)
		default:
			c.refused(pack, answer.Responses, again)
		}
		return
	}
}

// refused finds out how commits ended whose transaction was refused, by the heads that there are. again says
// that the transaction was sent before, and may have been done then.
func (c *committer) refused(pack []*commit, answers []*pb.ResponseOp, again bool) {
	found := make([][]*mvccpb.KeyValue, len(pack))
	for i, w := range pack {
		found[i] = answers[i].GetResponseRange().GetKvs()
		if len(found[i]) == 1 && bytes.Equal(found[i][0].Value, w.head) {
			c.applied(pack, found[i][0].ModRevision) // all of them: it was one transaction
			return
		}
	}
	for i, w := range pack {
		err := overtaken(found[i], w.from.head)
		switch {
		case len(pack) > 1 && w.from.has(found[i]):
			c.send([]*commit{w}) // it is not the one that differs
			continue
		case again && store.OutcomeOf(err) == store.Fenced:
			err = fmt.Errorf("%w: etcd: the partition was claimed before there was an answer", store.ErrUnknown)
		}
		w.done <- committed{err: err}
	}
}

// errOvertaken: a request of the same term, whose answer did not come, was done late. What was made from the
// head before it is not done any more.
var errOvertaken = errors.New("store: etcd: an earlier batch of this term came late")

// overtaken says what it means that the head is not as it was when a batch was made.
func overtaken(found []*mvccpb.KeyValue, head []byte) error {
	if len(found) == 1 && bytes.Equal(termOf(found[0].Value), termOf(head)) {
		return errOvertaken
	}
	return store.ErrFenced
}
