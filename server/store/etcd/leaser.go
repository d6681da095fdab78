package etcd

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/carillonhq/carillon/server/store"
)

// leaser keeps members and owners as keys that say until when they are valid, by the store's clock. Each
// change reads what is there, decides, and writes if nothing has changed meanwhile; otherwise it begins
// again.
//
// Leases of etcd are not used: they end by whole seconds, after 2 at the earliest, each takes a key to be
// kept alive by, and when they have ended they do not say until when they were valid.
type leaser struct{ *Store }

var _ store.Leaser = leaser{}

// errContended says that others always came first.
var errContended = errors.New("store: etcd: the keys are changed by others all the time")

const (
	// mostTries is how often a change is begun again.
	mostTries = 20
	// chunk is how many partitions are claimed or renewed in a transaction: two writes, or one comparison,
	// each.
	chunk = usualOps/2 - 2
)

// Now is the store's clock.
func (l leaser) Now(ctx context.Context) (time.Time, error) {
	done, err := l.calls.Begin(ctx)
	if err != nil {
		return time.Time{}, err
	}
	defer done()
	// A node asks to find out how far its clock is off. Without etcd it is to find out nothing.
	if _, err := l.wire.get(ctx, one(l.keys.store())); err != nil {
		return time.Time{}, failure(err)
	}
	return l.clock.Time(), nil
}

// change does what a decision about some keys says, which it is given as they are, until nobody else has
// changed one of them meanwhile. A decision without operations ends it.
func (l leaser) change(ctx context.Context, read []*pb.RangeRequest,
	decide func(found []*pb.RangeResponse) (compares []*pb.Compare, ops []*pb.RequestOp, err error)) error {
	for range mostTries {
		found, _, err := l.wire.read(ctx, read...)
		if err != nil {
			return failure(err)
		}
		compares, ops, err := decide(found)
		if err != nil || len(ops) == 0 {
			return err
		}
		answer, err := l.wire.txn(ctx, &pb.TxnRequest{Compare: append(compares, l.same()), Success: ops})
		if err != nil {
			return failure(err)
		}
		if answer.Succeeded {
			l.heads.saw(answer.Header.Revision)
			l.health.Same()
			return nil
		}
		if err := l.isSame(ctx); err != nil {
			return err
		}
	}
	return errContended
}

// parseOwner reads the key of an owner, which is zero if it is not there.
func (l leaser) parseOwner(p int, found *pb.RangeResponse) (v ownerValue, revision int64, err error) {
	if len(found.Kvs) == 0 {
		return v, 0, nil
	}
	err = decode(l.keys.owner(p), found.Kvs[0].Value, &v)
	return v, found.Kvs[0].ModRevision, err
}

// each calls f for some of the partitions after the other, as many as fit into a transaction.
func each(partitions []int, f func(from int, some []int) error) error {
	for from := 0; from < len(partitions); from += chunk {
		if err := f(from, partitions[from:min(from+chunk, len(partitions))]); err != nil {
			return err
		}
	}
	return nil
}

func (l leaser) ownerRanges(partitions []int) []*pb.RangeRequest {
	out := make([]*pb.RangeRequest, len(partitions))
	for i, p := range partitions {
		out[i] = one(l.keys.owner(p))
	}
	return out
}

// Claim takes each partition that is free, expired or the node's own.
func (l leaser) Claim(ctx context.Context, node string, partitions []int,
	ttl time.Duration) ([]store.Term, error) {
	done, err := l.calls.Begin(ctx, partitions...)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := l.isSame(ctx); err != nil {
		return nil, err
	}
	terms := make([]store.Term, len(partitions))
	err = each(partitions, func(from int, some []int) error {
		return l.take(ctx, node, some, ttl, terms[from:from+len(some)])
	})
	if err != nil {
		return nil, err
	}
	for i, p := range partitions {
		if !terms[i].IsZero() {
			l.replicas[p].own(true)
		}
	}
	return terms, nil
}

// take claims partitions that fit into a transaction, and sets their terms.
func (l leaser) take(ctx context.Context, node string, partitions []int, ttl time.Duration,
	terms []store.Term) error {
	return l.change(ctx, l.ownerRanges(partitions),
		func(found []*pb.RangeResponse) (compares []*pb.Compare, ops []*pb.RequestOp, err error) {
			now := l.clock.Time()
			for i, p := range partitions {
				v, revision, err := l.parseOwner(p, found[i])
				if err != nil {
					return nil, nil, err
				}
				terms[i] = store.Term{}
				if v.Node != "" && v.Node != node && v.lasts(now) {
					continue
				}
				// Also after a restore of etcd from a snapshot an epoch is greater than those that were lost.
				terms[i] = store.Term{Epoch: max(v.Epoch+1, uint64(now.Unix())), Nonce: rand.Uint64()}
				mine := ownerValue{terms[i].Epoch, terms[i].Nonce, node, lasting(now, ttl)}
				compares = append(compares, unchanged(l.keys.owner(p), revision))
				ops = append(ops, put(l.keys.owner(p), encode(mine)), put(l.keys.head(p), headValue(terms[i], false)))
			}
			return compares, ops, nil
		})
}

// held calls f for each of the partitions that is still held, with what is known of it, and writes what that
// returns. It returns those that are not held any more.
func (l leaser) held(ctx context.Context, node string, held []store.Holding,
	f func(p int, v ownerValue) []*pb.RequestOp) ([]store.Holding, error) {
	partitions := make([]int, len(held))
	for i, h := range held {
		partitions[i] = h.Partition
	}
	done, err := l.calls.Begin(ctx, partitions...)
	if err != nil {
		return nil, err
	}
	defer done()
	lost := make([]bool, len(held))
	err = each(partitions, func(from int, some []int) error {
		return l.change(ctx, l.ownerRanges(some),
			func(found []*pb.RangeResponse) (compares []*pb.Compare, ops []*pb.RequestOp, err error) {
				for i, p := range some {
					v, revision, err := l.parseOwner(p, found[i])
					if err != nil {
						return nil, nil, err
					}
					if v.Node != node {
						l.replicas[p].own(false)
					}
					lost[from+i] = v.Node != node || node == "" || v.term() != held[from+i].Term
					if !lost[from+i] {
						compares = append(compares, unchanged(l.keys.owner(p), revision))
						ops = append(ops, f(p, v)...)
					}
				}
				return compares, ops, nil
			})
	})
	if err != nil {
		return nil, err
	}
	var out []store.Holding
	for i, h := range held {
		if lost[i] {
			out = append(out, h)
		}
	}
	return out, nil
}

// Renew extends the leases and returns those that are lost.
func (l leaser) Renew(ctx context.Context, node string, held []store.Holding,
	ttl time.Duration) ([]store.Holding, error) {
	return l.held(ctx, node, held, func(p int, v ownerValue) []*pb.RequestOp {
		v.lease = lasting(l.clock.Time(), ttl)
		return []*pb.RequestOp{put(l.keys.owner(p), encode(v))}
	})
}

// Release frees the partitions that are still held.
func (l leaser) Release(ctx context.Context, node string, held []store.Holding) error {
	_, err := l.held(ctx, node, held, func(p int, v ownerValue) []*pb.RequestOp {
		released := ownerValue{Epoch: v.Epoch, Nonce: v.Nonce}
		return []*pb.RequestOp{put(l.keys.owner(p), encode(released)),
			put(l.keys.head(p), headValue(v.term(), true))}
	})
	if err != nil {
		return err
	}
	for _, h := range held {
		l.replicas[h.Partition].own(false)
	}
	return nil
}

// Owners returns every partition that was ever claimed, by number.
func (l leaser) Owners(ctx context.Context) ([]store.Owner, error) {
	done, err := l.calls.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	found, err := l.wire.get(ctx, under(l.keys.of("owners", "")))
	if err != nil {
		return nil, failure(err)
	}
	var out []store.Owner
	for _, kv := range found.Kvs { // their keys are in the order of numbers
		p, err := last(kv.Key)
		if err != nil {
			return nil, err
		}
		var v ownerValue
		if err := decode(kv.Key, kv.Value, &v); err != nil {
			return nil, err
		}
		if p < l.meta.Partitions {
			out = append(out, store.Owner{Partition: p, Term: v.term(), Node: v.Node, Until: v.Until})
		}
	}
	return out, nil
}
