package pebble

import (
	"errors"
	"fmt"

	pebbledb "github.com/cockroachdb/pebble/v2"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	"github.com/carillonhq/carillon/server/store/ordered"
)

// A store of an older format has records that the lists of this one lack: those that are not scheduled, by
// their phase, and finished runs, by their status. The entries are built when the folder is opened, before
// the number of the format is written. A process that is killed meanwhile leaves some of them; the next one
// goes on with those that lack: no key is set that is there, since it is removed with SingleDelete.

// extender builds what a store of an older format lacks in one partition.
type extender struct {
	source
	db        *pebbledb.DB
	partition int
	out       *pebbledb.Batch
	most      int // bytes of a batch
	built     int // entries
}

// listedSince is the format since which a store has the lists.
const listedSince = 3

// extend builds what a store of an older format lacks.
func (s *Store) extend(e *engine, m *meta) error {
	if m.Format >= listedSince {
		return nil
	}
	s.opt.Log.Warn("the store is of an older format: lists of it are made, which may take a minute",
		"folder", s.folder.dir, "format", m.Format, "becomes", store.Format())
	built := 0
	for p := range m.Partitions {
		x := &extender{source: source{e.db, e.lost}, db: e.db, partition: p, most: s.opt.MemTableBytes / 4}
		if err := x.build(); err != nil {
			return fmt.Errorf("partition %d is brought up to format %d: %w", p, store.Format(), err)
		}
		built += x.built
	}
	s.opt.Log.Warn("the store is of this format now", "folder", s.folder.dir, "format", store.Format(), "entries", built)
	return nil
}

// build builds what lacks. Records that are lost have no entries.
func (x *extender) build() (err error) {
	x.out = x.db.NewBatch()
	defer func() { err = errors.Join(err, x.out.Close()) }()
	for _, step := range []func() error{x.finished, x.due, x.staged, x.heads, x.dropDead} {
		if err := step(); err != nil {
			return err
		}
	}
	return x.write(0)
}

// finished lists the finished runs.
func (x *extender) finished() error {
	lower, upper := bounds(appendHead(nil, x.partition, kindHistory))
	var key []byte
	return eachLeft(x.source, lower, upper, func(_, value []byte) (bool, error) {
		r, err := codec.DecodeRun(value)
		if err != nil {
			return false, err
		}
		key = appendFinishedKey(key[:0], x.partition, &r)
		if _, there, err := get(x.source, key); err != nil || there {
			return true, unlessLost(err)
		}
		if err := x.out.Set(key, nil, nil); err != nil {
			return false, err
		}
		x.built++
		return true, x.write(x.most)
	})
}

// due lists the records whose body the due index has.
func (x *extender) due() error {
	lower, upper := bounds(appendHead(nil, x.partition, kindDue))
	return eachLeft(x.source, lower, upper, func(key, body []byte) (bool, error) {
		c := ordered.Cutter{B: key[headLen+1:]}
		c.Time()
		ref := c.Ref()
		if err := c.End(); err != nil {
			return false, err
		}
		return true, x.list(ref, body)
	})
}

// staged lists the records whose body the staged index has.
func (x *extender) staged() error {
	lower, upper := bounds(appendHead(nil, x.partition, kindStaged))
	return eachLeft(x.source, lower, upper, func(key, body []byte) (bool, error) {
		c := ordered.Cutter{B: key[headLen:]}
		c.Text()
		c.Byte()
		c.Time()
		ref := c.Ref()
		if err := c.End(); err != nil || len(body) == 0 {
			return true, err
		}
		return true, x.list(ref, body)
	})
}

// heads lists the records whose body the head has.
func (x *extender) heads() error {
	for _, kind := range []byte{kindHead, kindPending} {
		lower, upper := bounds(appendHead(nil, x.partition, kind))
		if err := eachLeft(x.source, lower, upper, func(key, value []byte) (bool, error) {
			ref, err := ordered.ParseRef(key[headLen:])
			if err != nil {
				return false, err
			}
			h, err := parseHead(x.partition, value)
			if err != nil || !h.bodyInHead() {
				return true, err
			}
			return true, x.list(ref, h.body)
		}); err != nil {
			return err
		}
	}
	return nil
}

// list lists a record by its phase, unless it is listed or is scheduled. Its head says so from then on.
func (x *extender) list(ref store.Ref, body []byte) error {
	state, _, err := splitBody(body)
	if err != nil {
		return err
	}
	phase, err := codec.StatePhase(state)
	if err != nil || phase == carillon.PhaseScheduled {
		return err
	}
	key := appendHeadKey(nil, x.partition, ref)
	value, there, err := get(x.source, key)
	if err != nil || !there {
		return unlessLost(err) // of a damaged store
	}
	h, err := parseHead(x.partition, value)
	if err != nil || h.phase != carillon.PhaseScheduled {
		return err
	}
	h.phase = phase
	h.flags |= headTwice
	if err := errors.Join(x.out.Set(key, append(h.append(nil), h.body...), nil),
		x.out.Set(appendPhaseKey(nil, x.partition, phase, ref), nil, nil)); err != nil {
		return err
	}
	x.built++
	return x.write(x.most)
}

// dropDead removes what the dead runs were listed by, each set once.
func (x *extender) dropDead() error {
	lower, upper := bounds(appendHead(nil, x.partition, kindDead))
	return eachLeft(x.source, lower, upper, func(key, _ []byte) (bool, error) {
		if err := x.out.SingleDelete(key, nil); err != nil {
			return false, err
		}
		return true, x.write(x.most)
	})
}

// write makes what was built durable, if it is more than some bytes.
func (x *extender) write(more int) error {
	if x.out.Empty() || x.out.Len() < more {
		return nil
	}
	if err := x.db.Apply(x.out, pebbledb.Sync); err != nil {
		return err
	}
	x.out.Reset()
	return nil
}

// unlessLost is nil for what a damaged store has lost.
func unlessLost(err error) error {
	if errors.Is(err, store.ErrDamaged) {
		return nil
	}
	return err
}
