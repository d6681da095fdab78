package pebble

import (
	"cmp"
	"fmt"
	"time"

	pebbledb "github.com/cockroachdb/pebble/v2"

	"github.com/carillonhq/carillon/server/store"
)

// request is something to commit: a group of batches, or a claim. Either is decided when its turn comes.
type request struct {
	changes []change // of a group
	claim   func(out *pebbledb.Batch) error
	done    func(error) // called once, with the outcome; it does not block
}

// end reports the outcome.
func (req *request) end(err error) {
	for i := range req.changes {
		req.changes[i].ended(err)
	}
	req.done(err)
}

// commit is one write to Pebble, with the requests in it.
type commit struct {
	engine *engine
	ops    *pebbledb.Batch
	reqs   []*request
	err    error         // valid once done is closed
	done   chan struct{} // closed when the write is durable, or has failed
}

// committer is the one goroutine that writes. It turns the batches of all partitions into Pebble operations,
// merges the requests that wait and hands them to Pebble. A second goroutine, the syncer, waits for the
// fsyncs and reports the outcomes, so that the next commit is built meanwhile. Since only the committer
// changes terms and writes, the check of a term and the write that it permits are one step, and what a batch
// replaces cannot change between being read and being written.
//
//	Submit, Claim ──queue──→ committer: next → take (terms, build) → Pebble ──syncs──→ syncer: fsync → end
//	                             ↑                                               │
//	                             └────── the next commit, during the fsync ──────┘
type committer struct {
	s       *Store
	queue   chan *request
	syncs   chan *commit // handed to Pebble; its capacity is how many may wait behind the running fsync
	builder builder      // its buffers hold what is known of the commit that is being made
	last    *commit
	tried   time.Time // when it last tried to write again after a failure
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
			req.end(why)
			continue
		}
		c.commit(req)
	}
}

// next returns the next request; nil if the engine failed meanwhile, or if it is time to try to write again.
func (c *committer) next() (req *request, ok bool) {
	e := c.s.engines.now // only this goroutine replaces it
	if e == nil || e.readOnly {
		return c.nextOrRetry()
	}
	if e.guard.void() {
		return nil, true
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
	c.builder.begin()
	for req := first; req != nil; req = c.more(m) {
		if err := c.take(m, req); err != nil {
			req.end(err)
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
// never wait at once: a shard has one batch in flight at a time, and of two owners one is fenced.
func (c *committer) more(m *commit) *request {
	// A write of more than half a memtable takes a slower path through Pebble.
	if m.ops != nil && m.ops.Len() >= min(commitBytes, c.s.opt.MemTableBytes/4) {
		return nil
	}
	select {
	case req := <-c.queue:
		return req // nil if the queue is closed
	default:
		return nil
	}
}

// take checks a request's terms and adds its operations to m. Its error means that nothing of it is written.
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
	ops, err := c.builder.request(m.engine, req)
	if err != nil {
		return err
	}
	if m.ops == nil {
		m.ops = ops // a group is most often alone: nothing is copied
		return nil
	}
	err = m.ops.Apply(ops, nil)
	_ = ops.Close() // it was copied
	return err
}

// sync is the syncer's goroutine.
func (c *committer) sync() {
	for m := range c.syncs {
		m.err = m.wait()
		close(m.done)
		for _, req := range m.reqs {
			req.end(m.err)
		}
	}
}

// wait waits until the commit is durable. After a failure it is not known whether it is.
func (m *commit) wait() error {
	err := m.ops.SyncWait()
	if err = cmp.Or(m.engine.failure(), err); err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnknown, err)
	}
	_ = m.ops.Close() // hands its memory back; it has been written
	return nil
}
