package pebble

import (
	"time"

	pebbledb "github.com/cockroachdb/pebble/v2"

	"github.com/carillonhq/carillon/store"
)

// request is something to be committed: the operations of an Apply or of a group, or a claim, which is decided when its
// turn comes.
type request struct {
	changes []change        // an Apply's one, or a group's
	engine  *engine         // that ops were built on
	ops     *pebbledb.Batch // nil once the commit has taken it over
	claim   func(out *pebbledb.Batch) error
	done    chan error // gets one value
}

// commit is what one write to Pebble holds.
type commit struct {
	engine *engine
	ops    *pebbledb.Batch
	reqs   []*request
	err    error         // valid once done is closed
	done   chan struct{} // closed when it is durable, or known to have failed
}

// committer is the one goroutine that writes: it merges the requests of all partitions and hands them to Pebble. Another,
// the syncer, waits for the fsyncs and answers, so that the next commit is made meanwhile.
type committer struct {
	s     *Store
	queue chan *request
	syncs chan *commit // handed to Pebble; its capacity is how many may wait behind the fsync under way
	last  *commit
	tried time.Time // when it was last tried to write again
}

// queueLen is how many requests may wait; more make their callers wait.
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

// next is the next request; nil if the engine failed meanwhile, or if it is time to try again to write.
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

// commit merges what waits behind first and hands it to Pebble.
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
		e.guard.fail(err) // Pebble refused it; whatever it was, this engine takes no more
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

// more is the next waiting request that fits into m, nil if there is none. Two of one partition never wait at once: Apply
// is called from one goroutine at a time, and of two owners one is fenced.
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

// take checks a request's terms and merges its operations into m; its error means that nothing of it is written.
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
