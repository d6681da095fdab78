package pebble

import (
	"context"
	"sync"

	"github.com/carillonhq/carillon/server/store"
)

// change is a batch of one partition on its way to the disk.
type change struct {
	shard    *shard
	batch    *store.Batch
	dues     []dueMark // entries that it adds to the due index
	facts    []byte    // facts about the records it changes, for the head cache
	retained int64     // by how much it changes the number of finished runs that are not dead

	childless bool // after it there are certainly no pending runs
}

var _ store.Grouper = (*Store)(nil)

// ApplyGroup makes all batches durable in one write, if all terms are in force when its turn comes.
func (s *Store) ApplyGroup(ctx context.Context, writes []store.Write) error {
	changes := make([]change, len(writes))
	for i, w := range writes {
		sh, ok := w.Shard.(*shard)
		if !ok || sh.s != s {
			return store.ErrOtherStore
		}
		changes[i] = change{shard: sh, batch: w.Batch}
	}
	if len(changes) == 0 {
		return ctx.Err()
	}
	return s.apply(ctx, changes)
}

// builders keeps builders, with their buffers, for later batches.
var builders = sync.Pool{New: func() any { return new(builder) }}

// apply makes the changes durable, all or none.
func (s *Store) apply(ctx context.Context, changes []change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.owners.holdAll(changes) {
		return store.ErrFenced
	}
	w := builders.Get().(*builder)
	defer builders.Put(w)
	req := &request{changes: changes, done: make(chan error, 1)}
	err := s.engines.use(func(e *engine) error { return w.request(e, req) })
	if err == nil {
		err = s.submit(ctx, req)
	}
	if req.ops != nil {
		_ = req.ops.Close() // it was copied or is not wanted
	}
	for i := range changes {
		changes[i].ended(err)
	}
	return err
}

// ended updates the partition's count of finished runs.
func (c *change) ended(err error) {
	runs := &c.shard.part.runs
	if err != nil {
		runs.known.Store(false)
		return
	}
	runs.add(c.retained)
}

// request builds a request's changes on e, into one Pebble batch. If the engine is read-only it builds
// nothing: the committer returns the reason, or tries to recover.
func (w *builder) request(e *engine, req *request) error {
	req.engine = e
	if e.readOnly {
		return nil
	}
	req.ops = e.db.NewBatch()
	w.dues, w.facts = w.dues[:0], w.facts[:0]
	for i := range req.changes {
		if err := w.change(e, req, &req.changes[i]); err != nil {
			if why := e.failure(); why != nil {
				return why // what could not be read may be what could not be written
			}
			return err
		}
	}
	return nil
}

// change builds one change. Only a batch that must see its own writes pays for an index of them. It never
// needs to see what other partitions of the group write.
func (w *builder) change(e *engine, req *request, c *change) error {
	w.part, w.partition, w.inline = c.shard.part, c.shard.number, c.shard.s.opt.InlineSpec
	whole := source{e.db, e.lost}
	w.read, w.committed, w.out, w.err, w.lives, w.retained = whole, whole, req.ops, nil, w.lives[:0], 0
	dues, facts := len(w.dues), len(w.facts)
	w.asks = !putsAfterDeletes(c.batch)
	if readsOwnWrites(c.batch) {
		ops := e.db.NewIndexedBatch()
		defer func() { _ = ops.Close() }() // it was copied or is not wanted
		w.read, w.out = source{ops, e.lost}, ops
	}
	if err := w.build(c.batch); err != nil {
		return err
	}
	c.dues, c.facts, c.retained = w.dues[dues:], w.facts[facts:], w.retained
	c.childless = w.childless && !putsPending(c.batch)
	if w.out != req.ops {
		return req.ops.Apply(w.out, nil)
	}
	return nil
}
