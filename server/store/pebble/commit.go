package pebble

import (
	"time"

	pebbledb "github.com/cockroachdb/pebble/v2"

	"github.com/carillonhq/carillon/server/store"
)

// request is something to commit: the operations of an Apply or of a group, or a claim, which is decided when
// its turn comes.
type request struct {
	changes []change        // the one change of an Apply, or those of a group
	engine  *engine         // that ops were built on
	ops     *pebbledb.Batch // nil once the commit has taken it over
	claim   func(out *pebbledb.Batch) error
	done    chan error // gets one value
}

// commit is one write to Pebble, with the requests in it.
type commit struct {
	engine *engine
	ops    *pebbledb.Batch
	reqs   []*request
	err    error         // valid once done is closed
	done   chan struct{} // closed when the write is durable, or has failed
}

// committer is the one goroutine that writes. It merges the requests of all partitions and hands them to
// Pebble. A second goroutine, the syncer, waits for the fsyncs and answers, so that the next commit is built
// meanwhile. Since only the committer changes terms and writes, the check of a term and the write that it
// permits are one step.
//
//	Apply, Claim ──queue──→ committer: next → take (terms) → merge → Pebble ──syncs──→ syncer: fsync → done
//	                            ↑                                                │
//	                            └────── the next commit, during the fsync ───────┘
type committer struct {
	s     *Store
	queue chan *request
	syncs chan *commit // handed to Pebble; its capacity is how many may wait behind the running fsync
	last  *commit
	tried time.Time // when it last tried to write again after a failure
}

// queueLen is how many requests may wait; the callers of more block.
const queueLen = 256

func newCommitter(s *Store) *committer {
	return &committer{s: s, queue: make(chan *request, queueLen), syncs: make(chan *commit, 1)}
}

// run is the committer's goroutine. It ends when the queue is closed and empty.
func (c *committer) run() {
	defer close(c.syncs)
	for {
		req, ok := c.next()
		if !ok {
			return
		}
		if req == nil {
			c.tend()
			continue
		}
		if why := c.unwritable(); why != nil {
			req.done <- why
			continue
		}
		c.commit(req)
	}
}

// next returns the next request; nil if the engine failed meanwhile, or if it is time to try to write again.
func (c *committer) next() (req *request, ok bool) {
	e := c.s.engines.now // only this goroutine replaces it
	writes := e != nil && !e.readOnly
	if writes && e.guard.void() {
		return nil, true
	}
	if !writes {
		return c.nextOrRetry()
	}
	select {
	case <-e.guard.failed:
		return nil, true
	case req, ok = <-c.queue:
		return req, ok
	}
}

// commit merges first with the requests that wait behind it and hands them to Pebble.
func (c *committer) commit(first *request) {
	e := c.s.engines.now
	m := &commit{engine: e, done: make(chan struct{})}
	for req := first; req != nil; req = c.more(m) {
		if err := c.take(m, req); err != nil {
			req.done <- err
			continue
		}
		m.reqs = append(m.reqs, req)
	}
	if m.ops == nil {
		return // everything was refused
	}
	m.each(func(ch *change) {
		ch.shard.part.flying.Store(m) // before it can be read
		ch.shard.part.marks.soon(ch.dues)
	})
	if err := e.db.ApplyNoSyncWait(m.ops, pebbledb.Sync); err != nil {
		e.guard.fail(err) // Pebble refused it; whatever the reason, this engine accepts no more
	}
	m.each(func(ch *change) {
		ch.shard.part.marks.visible()
		ch.shard.part.heads.change(ch.facts)
		ch.shard.part.childless.Store(ch.childless)
	})
	c.last = m
	c.syncs <- m
}

// each calls f with every change of the commit.
func (m *commit) each(f func(*change)) {
	for _, req := range m.reqs {
		for i := range req.changes {
			f(&req.changes[i])
		}
	}
}

// more returns the next waiting request that fits into m, nil if there is none. Two requests of one partition
// never wait at once: Apply is called from one goroutine at a time, and of two owners one is fenced.
func (c *committer) more(m *commit) *request {
	if m.ops != nil && m.ops.Len() >= c.s.opt.CommitBytes {
		return nil
	}
	select {
	case req, ok := <-c.queue:
		if !ok {
			return nil
		}
		return req
	default:
		return nil
	}
}

// take checks a request's terms and merges its operations into m. Its error means that nothing of it is
// written.
func (c *committer) take(m *commit, req *request) error {
	if req.claim != nil {
		if m.ops == nil {
			m.ops = m.engine.db.NewBatch()
		}
		return req.claim(m.ops)
	}
	if !c.s.owners.holdAll(req.changes) {
		return store.ErrFenced
	}
	if req.engine != m.engine {
		return errReopened
	}
	if m.ops == nil {
		m.ops, req.ops = req.ops, nil // a group is most often alone: nothing is copied
		return nil
	}
	return m.ops.Apply(req.ops, nil)
}

// sync is the syncer's goroutine.
func (c *committer) sync() {
	for m := range c.syncs {
		m.err = m.wait()
		close(m.done)
		for _, req := range m.reqs {
			req.done <- m.err
		}
	}
}

// wait waits until the commit is durable. After a failure it is not known whether it is.
func (m *commit) wait() error {
	err := m.ops.SyncWait()
	if first := m.engine.failure(); first != nil {
		err = first
	}
	if err != nil {
		return &unknownError{err}
	}
	_ = m.ops.Close() // hands its memory back; it has been written
	return nil
}
