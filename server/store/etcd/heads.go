package etcd

import (
	"context"
	"sync"
	"sync/atomic"
)

// heads tells at which revision each partition was last written, so that a read can be answered from memory
// if that is as new. Reads that wait at the same time share one request to etcd, which begins after all of
// them: so each sees every write that was acknowledged before it began.
//
//	read ──┐                    ┌── request 2 ──▶ answers both
//	read ──┴─ wait for the next ┘
//	          request 1 is under way
type heads struct {
	s      *Store
	asking sync.WaitGroup
	seen   atomic.Int64 // the greatest revision of etcd that was answered

	mu   sync.Mutex
	next *headsRead // the one that has not begun
	busy bool
}

// headsRead is one request.
type headsRead struct {
	done chan struct{}
	at   map[int]int64 // revision of the heads by partition
	err  error
}

func newHeads(s *Store) *heads { return &heads{s: s} }

// newest returns the revision at which a partition was last written, 0 if never.
func (h *heads) newest(ctx context.Context, partition int) (int64, error) {
	r := h.join()
	select {
	case <-r.done:
		return r.at[partition], r.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// join returns the request that has not begun.
func (h *heads) join() *headsRead {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next == nil {
		h.next = &headsRead{done: make(chan struct{})}
	}
	if !h.busy {
		h.busy = true
		h.asking.Go(h.run)
	}
	return h.next
}

// run does one request after the other while somebody waits.
func (h *heads) run() {
	for {
		h.mu.Lock()
		r := h.next
		h.next = nil
		h.busy = r != nil
		h.mu.Unlock()
		if r == nil {
			return
		}
		r.at, r.err = h.ask()
		close(r.done)
	}
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
