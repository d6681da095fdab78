package etcd

import (
	"context"
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/carillonhq/carillon/server/store"
)

// extend brings a store of an older format up to date, which is to write the number of this one. Nodes of the
// older format must not live: in the transaction that changes the number none may have come since it was
// looked, and those that come later find another value in the place of the one that they have read.
func (s *Store) extend(ctx context.Context) error {
	if s.meta.Format == store.Format() {
		return nil
	}
	value := encode(storeValue{store.Format(), s.meta.Partitions, s.meta.MACKey})
	l := leaser{s}
	err := l.change(ctx, []*pb.RangeRequest{under(s.keys.nodes())},
		func(answers []*pb.RangeResponse) (compares []*pb.Compare, ops []*pb.RequestOp, err error) {
			all, err := l.parseMembers(answers[0])
			if err != nil {
				return nil, nil, err
			}
			var live []string
			newest := int64(0)
			for _, f := range all {
				newest = max(newest, f.revision)
				if f.lasts(s.clock.Time()) {
					live = append(live, f.ID)
				}
			}
			if err := store.CheckUnused(s.meta.Format, live); err != nil {
				return nil, nil, err
			}
			return []*pb.Compare{noneAfter(s.keys.nodes(), newest)}, []*pb.RequestOp{put(s.keys.store(), value)}, nil
		})
	if errors.Is(err, ErrReplaced) { // perhaps by another process that did the same
		if err := s.create(ctx); err != nil || s.meta.Format == store.Format() {
			return err
		}
	}
	if err != nil {
		return err
	}
	s.opt.Log.Warn("the store is of this format now", "was", s.meta.Format, "format", store.Format())
	s.value, s.meta.Format = value, store.Format()
	return nil
}

// noneAfter compares that no key with a prefix has been written after a revision.
func noneAfter(prefix []byte, revision int64) *pb.Compare {
	return &pb.Compare{Result: pb.Compare_LESS, Target: pb.Compare_MOD, Key: prefix, RangeEnd: after(prefix),
		TargetUnion: &pb.Compare_ModRevision{ModRevision: revision + 1}}
}
