package etcd

import (
	"context"
	"sync/atomic"

	"github.com/carillonhq/carillon/server/store/joined"
)

// heads tells at which revision each partition was last written, so that a read can be answered from memory
// if that is as new. Reads that wait at the same time share one request to etcd.
type heads struct {
	s    *Store
	at   *joined.Call[map[int]int64] // revision of the heads by partition
	seen atomic.Int64                // the greatest revision of etcd that was answered
}

func newHeads(s *Store) *heads {
	h := &heads{s: s}
	h.at = joined.New(h.ask)
	return h
}

// newest returns the revision at which a partition was last written, 0 if never.
func (h *heads) newest(ctx context.Context, partition int) (int64, error) {
	at, err := h.at.Wait(ctx)
	return at[partition], err
}

// ask reads all heads. Revisions of etcd only grow, unless it was restored from a snapshot: then what is in
// memory is of another history.
func (h *heads) ask() (map[int]int64, error) {
	before := h.seen.Load()
	heads := under(h.s.keys.heads())
	heads.KeysOnly = true
	answer, err := h.s.wire.get(context.Background(), heads)
	if err != nil {
		return nil, failure(err)
	}
	if answer.Header.Revision < before {
		h.seen.Store(answer.Header.Revision)
		h.s.opt.Log.Error("etcd has gone back to an older revision, as if it was restored from a snapshot: "+
			"everything is read again", "revision", answer.Header.Revision, "was", before)
		for _, r := range h.s.replicas {
			r.forget()
		}
	}
	h.saw(answer.Header.Revision)
	at := make(map[int]int64, len(answer.Kvs))
	for _, kv := range answer.Kvs {
		p, err := last(kv.Key)
		if err != nil {
			return nil, err
		}
		at[p] = kv.ModRevision
	}
	return at, nil
}

// saw notes a revision that etcd has answered.
func (h *heads) saw(revision int64) {
	for {
		old := h.seen.Load()
		if revision <= old || h.seen.CompareAndSwap(old, revision) {
			return
		}
	}
}
