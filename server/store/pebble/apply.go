package pebble

import (
	"cmp"
	"context"

	pebbledb "github.com/cockroachdb/pebble/v2"

	"github.com/carillonhq/carillon/server/store"
)

// change is a batch of one partition on its way to the disk. The committer fills in what is below batch when
// it builds it.
type change struct {
	shard    *shard
	batch    *store.Batch
	dues     []dueMark // entries that it adds to the due index
	facts    []byte    // facts about the records it changes, for the head cache
	retained int64     // by how much it changes the number of finished runs that are not dead

	childless bool // after it there are certainly no pending runs
}

var (
	_ store.Grouper   = (*Store)(nil)
	_ store.Submitter = (*Store)(nil)
)

// Submit hands the group to the committer. done is called by the committer if it refuses the group, otherwise
// by the syncer.
func (s *Store) Submit(writes []store.Write, done func(error)) {
	req, err := s.group(writes)
	if err == nil {
		req.done = done
		err = s.send(context.Background(), req)
	}
	if err != nil {
		done(err)
	}
}

// ApplyGroup makes all batches durable in one write, if all terms are in force when its turn comes.
func (s *Store) ApplyGroup(ctx context.Context, writes []store.Write) error {
	if len(writes) == 0 {
		return ctx.Err()
	}
	req, err := s.group(writes)
	if err != nil {
		return err
	}
	return s.await(ctx, req)
}

// group returns the request for a group.
func (s *Store) group(writes []store.Write) (*request, error) {
	changes := make([]change, len(writes))
	for i, w := range writes {
		sh, ok := w.Shard.(*shard)
		if !ok || sh.s != s {
			return nil, store.ErrOtherStore
		}
		changes[i] = change{shard: sh, batch: w.Batch}
	}
	return &request{changes: changes}, nil
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

// request builds a request's changes on e, into one Pebble batch.
func (w *builder) request(e *engine, req *request) (*pebbledb.Batch, error) {
	ops := e.db.NewBatch()
	for i := range req.changes {
		if err := w.change(e, ops, &req.changes[i]); err != nil {
			_ = ops.Close()                      // nothing of it is written
			return nil, cmp.Or(e.failure(), err) // what could not be read may be what could not be written
		}
	}
	return ops, nil
}

// change builds one change into ops. Only a batch that must see its own writes pays for an index of them. It
// never needs to see what other partitions of the group write.
func (w *builder) change(e *engine, ops *pebbledb.Batch, c *change) error {
	w.part, w.partition, w.inline = c.shard.part, c.shard.number, c.shard.s.opt.InlineSpec
	whole := source{e.db, e.lost}
	w.read, w.committed, w.out, w.err, w.lives, w.retained = whole, whole, ops, nil, w.lives[:0], 0
	dues, facts := len(w.dues), len(w.facts)
	w.asks = !putsAfterDeletes(c.batch)
	w.repeats = runsRepeat(c.batch.Runs)
	if readsOwnWrites(c.batch, w.repeats) {
		own := e.db.NewIndexedBatch()
		defer func() { _ = own.Close() }() // it was copied or is not wanted
		w.read, w.out = source{own, e.lost}, own
	}
	if err := w.build(c.batch); err != nil {
		return err
	}
	c.dues, c.facts, c.retained = w.dues[dues:], w.facts[facts:], w.retained
	c.childless = w.childless && !putsPending(c.batch)
	if w.out != ops {
		return ops.Apply(w.out, nil)
	}
	return nil
}
