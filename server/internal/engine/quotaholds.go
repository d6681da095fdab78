package engine

import (
	"context"
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

// A batch put needs room in several partitions at a time. The room that one has got may be taken back while
// another asks for its own. So it is set aside in each, by the batch's id, until the batch is put.

// holdRoom sets room of quotas aside in all partitions of a batch, or in none. If the batch is then certainly
// not put, the caller calls drop. Nothing is asked for namespaces without quotas.
func (bs *batches) holdRoom(ctx context.Context, id string, reqs []message.PutRequest,
	parts byPart) (drop func(), err error) {
	if !slices.ContainsFunc(reqs, func(r message.PutRequest) bool {
		s := bs.quotas.settings.get(r.Job.Namespace)
		return s != nil && s.Quotas.Stores()
	}) {
		return func() {}, nil
	}
	all := inOrder(parts)
	hold := func(ctx context.Context, indices func(p *partitionRunner) []int) error {
		return eachAtOnce(len(all), func(i int) error {
			share := &message.Share{Batch: id, Hold: true}
			for _, k := range indices(all[i]) {
				share.Reqs = append(share.Reqs, reqs[k])
			}
			_, err := across(ctx, bs.partitions, all[i], message.ApplyShare{Share: share})
			return certain(err)
		})
	}
	drop = func() {
		ctx, cancel := context.WithTimeout(bs.partitions.life, askWithin)
		defer cancel()
		// Where this fails it is set aside for a minute in vain.
		_ = hold(ctx, func(*partitionRunner) []int { return nil })
	}
	if err = hold(ctx, func(p *partitionRunner) []int { return parts[p] }); err != nil {
		drop()
	}
	return drop, err
}

// serveHold sets room aside for the share of a batch that is about to be decided; without jobs, no longer.
func serveHold(ctx context.Context, p *partitionRunner, s *message.Share) error {
	c := call{of: s.Batch}
	for i := range s.Reqs {
		c.refs = append(c.refs, store.Ref{Key: s.Reqs[i].Job.Key()})
	}
	_, err := withRoom(ctx, p.e.quotas, func() (struct{}, error) {
		return inRoundSeq(ctx, p, c, func(p *partitionRunner, now int64) (struct{}, uint64, error) {
			p.m.Usage.Unhold(s.Batch)
			if len(s.Reqs) == 0 {
				return struct{}{}, 0, nil
			}
			return struct{}{}, 0, p.m.Jobs.Hold(now, s.Batch, s.Reqs)
		})
	})
	return err
}

// putHeld puts a group for which there was no room, after room has been set aside for it.
func (bs *batches) putHeld(ctx context.Context, l *lane, reqs []message.PutRequest,
	parts byPart) ([]carillon.PutResult, error) {
	id, err := bs.newID()
	if err != nil {
		return nil, err
	}
	drop, err := bs.holdRoom(ctx, id, reqs, parts)
	if err != nil {
		return nil, err
	}
	puts, err := l.putGroup(ctx, reqs, parts, id)
	if err != nil && !unknown(err) {
		drop()
	}
	return puts, err
}
