package etcd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/carillonhq/carillon/server/store"
)

// A batch that does not fit into one transaction of etcd is written in three steps:
//
//	1. its operations are written down as parts, each a key        p/00007/parts/ID/000000 …
//	2. one transaction compares the head and writes the commit     commits/00007 = ID, so many parts
//	3. each part is done and its key deleted, in one transaction;
//	   at the end the commit is deleted
//
// The second step is the one that counts: before it there is nothing of the batch, after it all of it. Who
// reads a partition with a commit does in memory what the parts say that are left, and who is to write it
// ends the third step first. Every transaction compares the head, so a deposed owner adds nothing, and one
// that is done twice finds its part gone. Parts without a commit are of an owner that did not come to the
// second step; the next one that writes deletes them.

// stage writes a batch that was made from a version, and that does not fit into one transaction. It returns
// the new head, and what is left to do. The caller holds the replica's lock.
func (r *replica) stage(ctx context.Context, from *version, o *built) (headAt, *commitValue, error) {
	most := int(r.s.wire.mostOps.Load())
	v := &commitValue{ID: rand.Text()}
	for _, ops := range o.parts(most) {
		value, err := partValue(ops)
		if err != nil {
			return headAt{}, nil, fmt.Errorf("store: etcd: encode a part: %w", err)
		}
		key := r.s.keys.part(r.number, v.ID, v.Parts)
		if err := r.guarded(ctx, from, nil, put(key, value)); err != nil {
			return headAt{}, nil, r.unstaged(from, err)
		}
		v.Parts++
	}
	at, err := r.s.commits.write(r, from, []*pb.RequestOp{put(r.s.keys.commit(r.number), encode(v))}, 0)
	if err != nil {
		r.orphans(from)
		return headAt{}, nil, err
	}
	return at, v, nil
}

// unstaged is the error of a batch of which some parts may be written: nothing of it counts.
func (r *replica) unstaged(from *version, err error) error {
	r.orphans(from)
	if store.OutcomeOf(err) == store.Unknown {
		return errors.New("store: etcd: a part of the batch may not have been written: " + err.Error())
	}
	return err
}

// orphans notes that there may be parts that nothing commits.
func (r *replica) orphans(from *version) {
	with := *from
	with.orphaned = true
	r.is.CompareAndSwap(from, &with)
}

// settle does what is left of a committed batch, and deletes parts of those that were not, and returns the
// version without them. It is needed before the next batch. The caller holds the lock.
func (r *replica) settle(ctx context.Context, v *version) (*version, error) {
	keys := r.s.keys
	switch {
	case v.pending != nil:
		for n := range v.pending.Parts {
			if err := r.settlePart(ctx, v, keys.part(r.number, v.pending.ID, n)); err != nil {
				return nil, err
			}
		}
		if err := r.guarded(ctx, v, nil, remove(keys.commit(r.number))); err != nil {
			return nil, err
		}
	case v.orphaned:
		if err := r.guarded(ctx, v, nil, removeUnder(keys.parts(r.number, ""))); err != nil {
			return nil, err
		}
	default:
		return v, nil
	}
	settled := *v
	settled.pending, settled.orphaned = nil, false
	r.is.CompareAndSwap(v, &settled)
	return &settled, nil
}

// settlePart does what a part says, if it is still there.
func (r *replica) settlePart(ctx context.Context, v *version, key []byte) error {
	found, err := r.s.wire.get(ctx, one(key))
	if err != nil {
		return applyFailure(err)
	}
	if len(found.Kvs) == 0 {
		return nil
	}
	ops, err := parsePart(found.Kvs[0].Value)
	if err != nil {
		return damaged(key, err)
	}
	return r.guarded(ctx, v, unchanged(key, found.Kvs[0].ModRevision), append(ops, remove(key))...)
}

// guarded does operations if the head is that of a version. If another comparison fails, which may be nil,
// nothing is done: it was done before.
func (r *replica) guarded(ctx context.Context, v *version, also *pb.Compare,
	ops ...*pb.RequestOp) error {
	key := r.s.keys.head(r.number)
	t := &pb.TxnRequest{Compare: []*pb.Compare{unchanged(key, v.revision), has(key, v.head)}, Success: ops,
		Failure: []*pb.RequestOp{reading(one(key))}}
	if also != nil {
		t.Compare = append(t.Compare, also)
	}
	answer, err := r.s.wire.txn(ctx, t)
	if err != nil {
		return applyFailure(err)
	}
	if answer.Succeeded {
		return nil
	}
	found := answer.Responses[0].GetResponseRange().GetKvs()
	if v.has(found) {
		return nil
	}
	return overtaken(found, v.head)
}
