package etcd

import (
	"cmp"
	"context"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/carillonhq/carillon/server/store"
)

// found is a member and the revision of its key.
type found struct {
	store.Member
	lease
	revision int64
}

// parseMembers reads the keys of members.
func (l leaser) parseMembers(answer *pb.RangeResponse) ([]found, error) {
	var out []found
	for _, kv := range answer.Kvs {
		var v memberValue
		if err := decode(kv.Key, kv.Value, &v); err != nil {
			return nil, err
		}
		id, err := idOf(kv.Key)
		if err != nil {
			return nil, damaged(kv.Key, err)
		}
		out = append(out, found{store.Member{ID: id, Address: v.Address, HTTP: v.HTTP, Sidecars: v.Sidecars,
			Capacity: v.Capacity, Nonce: v.Nonce, Settings: v.Settings, State: v.State}, v.lease,
			kv.ModRevision})
	}
	return out, nil
}

// put is the operation that writes a member.
func (l leaser) put(m store.Member, ttl time.Duration) *pb.RequestOp {
	return put(l.keys.node(m.ID), encode(memberValue{m.Address, m.HTTP, m.Sidecars, m.Capacity, m.Nonce,
		m.Settings, m.State, lasting(l.clock.Time(), ttl)}))
}

// Join writes the member, unless another with its id lives.
func (l leaser) Join(ctx context.Context, m store.Member, ttl time.Duration) error {
	return l.write(ctx, m, ttl, false)
}

// Retire writes the member if another may own something.
func (l leaser) Retire(ctx context.Context, m store.Member, ttl time.Duration) error {
	return l.write(ctx, m, ttl, true)
}

// write writes a member. One that retires compares the key of one that stays as well, so that of two that
// retire at once, each because of the other, only one does.
func (l leaser) write(ctx context.Context, m store.Member, ttl time.Duration, retires bool) error {
	done, err := l.calls.Begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	return l.change(ctx, []*pb.RangeRequest{under(l.keys.nodes())},
		func(answers []*pb.RangeResponse) (compares []*pb.Compare, ops []*pb.RequestOp, err error) {
			all, err := l.parseMembers(answers[0])
			if err != nil {
				return nil, nil, err
			}
			now, mine, stays := l.clock.Time(), int64(0), false
			for _, f := range all {
				lives := f.lasts(now)
				switch {
				case f.ID == m.ID && f.Nonce != m.Nonce && lives:
					return nil, nil, store.ErrTaken
				case f.ID == m.ID:
					mine = f.revision
				case retires && !stays && lives && f.Capacity > 0:
					stays = true
					compares = append(compares, unchanged(l.keys.node(f.ID), f.revision))
				}
			}
			if retires && !stays {
				return nil, nil, store.ErrLast
			}
			compares = append(compares, unchanged(l.keys.node(m.ID), mine))
			return compares, []*pb.RequestOp{l.put(m, ttl)}, nil
		})
}

// Leave removes the member of that nonce; 0 is any.
func (l leaser) Leave(ctx context.Context, id string, nonce uint64) error {
	done, err := l.calls.Begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	key := l.keys.node(id)
	return l.change(ctx, []*pb.RangeRequest{one(key)},
		func(answers []*pb.RangeResponse) (compares []*pb.Compare, ops []*pb.RequestOp, err error) {
			all, err := l.parseMembers(answers[0])
			if err != nil || len(all) == 0 || nonce != 0 && all[0].Nonce != nonce {
				return nil, nil, err
			}
			return []*pb.Compare{unchanged(key, all[0].revision)}, []*pb.RequestOp{remove(key)}, nil
		})
}

// Members returns those that live, by id.
func (l leaser) Members(ctx context.Context) ([]store.Member, error) {
	done, err := l.calls.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	answer, err := l.wire.get(ctx, under(l.keys.nodes()))
	if err != nil {
		return nil, failure(err)
	}
	all, err := l.parseMembers(answer)
	if err != nil {
		return nil, err
	}
	var out []store.Member
	for now, i := l.clock.Time(), 0; i < len(all); i++ {
		if all[i].lasts(now) {
			out = append(out, all[i].Member)
		}
	}
	slices.SortFunc(out, func(a, b store.Member) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}
