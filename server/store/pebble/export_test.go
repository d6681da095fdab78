package pebble

import (
	"context"
	"errors"
	"fmt"
	"slices"

	pebbledb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	"github.com/carillonhq/carillon/server/store/ordered"
)

// Built is what a group would write, and does not: how many Pebble operations of how many bytes.
func Built(s *Store, writes []store.Write) (operations, bytes int, err error) {
	req, err := s.group(writes)
	if err != nil {
		return 0, 0, err
	}
	ops, err := new(builder).request(s.engines.now, req)
	if err != nil {
		return 0, 0, err
	}
	return int(ops.Count()), ops.Len(), ops.Close()
}

// SayFormat has a store say that it is of a format.
func SayFormat(s *Store, format int) error {
	m, err := readMeta(s.engines.now.db)
	if err != nil {
		return err
	}
	m.Format = format
	return m.write(s.engines.now.db)
}

// CopyAsFormat2 writes into an empty store what a program of format 2 would have, instead of what another one
// has.
func CopyAsFormat2(from, to *Store) error {
	out := to.engines.now.db.NewBatch()
	upper := appendHead(nil, storePartition, 0)
	if err := each(source{from.engines.now.db, &losses{}}, []byte{0}, upper, func(key, value []byte) (bool, error) {
		return true, asFormat2(out, key, value)
	}); err != nil {
		return err
	}
	return errors.Join(to.engines.now.db.Apply(out, pebbledb.Sync), SayFormat(to, 2))
}

func asFormat2(out *pebbledb.Batch, key, value []byte) error {
	partition := int(key[0])<<8 | int(key[1])
	switch key[headLen-1] {
	case kindPhase, kindFinished:
		return nil
	case kindHistory:
		r, err := codec.DecodeRun(value)
		if err != nil {
			return err
		}
		if r.Status == carillon.RunDead {
			dead := ordered.AppendText(appendHead(nil, partition, kindDead), r.Key.Namespace)
			err = out.Set(appendRun(ordered.AppendTimeDesc(dead, r.Finished), &r.ID), nil, nil)
		}
		r.Queue, r.Labels = "", nil
		return errors.Join(err, out.Set(key, codec.AppendRun(nil, &r), nil))
	case kindHead, kindPending:
		h, err := parseHead(partition, value)
		if err != nil {
			return err
		}
		h.phase = carillon.PhaseScheduled
		value = append(h.append(nil), h.body...)
	}
	return out.Set(key, value, nil)
}

// SetTwice are the keys of a store that were set by more than one table, and would not be removed as such.
func SetTwice(s *Store) (keys []string, err error) {
	e := s.engines.now
	if err := e.db.Flush(); err != nil {
		return nil, err
	}
	levels, err := e.db.SSTables()
	if err != nil {
		return nil, err
	}
	sets := map[string]int{}
	for _, t := range slices.Concat(levels...) {
		r, err := openTable(e.guard.FS, e.guard.PathJoin(e.lost.dir, fmt.Sprintf("%06d.sst", t.BackingSSTNum)))
		if err != nil {
			return nil, err
		}
		it, err := r.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
		if err != nil {
			return nil, err
		}
		for kv := it.First(); kv != nil; kv = it.Next() {
			if kv.K.Kind() == pebbledb.InternalKeyKindSet {
				sets[string(kv.K.UserKey)]++
			}
		}
		if err := errors.Join(it.Close(), r.Close()); err != nil {
			return nil, err
		}
	}
	for key, n := range sets {
		if n < 2 || key[:2] == "\xff\xff" {
			continue
		}
		if kind := key[headLen-1]; kind == kindHead || kind == kindPending {
			value, _, err := get(source{e.db, &losses{}}, []byte(key))
			if err != nil {
				return nil, err
			}
			if h, err := parseHead(0, value); err != nil || h.is(headTwice) {
				continue
			}
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// Drop removes every key of a kind.
func Drop(s *Store, kind byte) error {
	keys, err := KeysOf(s, kind)
	for _, key := range keys {
		err = errors.Join(err, s.engines.now.db.Delete([]byte(key), pebbledb.Sync))
	}
	return err
}

// KeysOf are the keys of a kind that there are after a compaction.
func KeysOf(s *Store, kind byte) (keys []string, err error) {
	db := s.engines.now.db
	if err := errors.Join(db.Flush(), db.Compact(context.Background(), []byte{0}, []byte{0xff, 0xff, 0xff}, false)); err != nil {
		return nil, err
	}
	for p := range s.meta.Partitions {
		lower, upper := bounds(appendHead(nil, p, kind))
		if err := each(source{db, &losses{}}, lower, upper, func(key, _ []byte) (bool, error) {
			keys = append(keys, string(key))
			return true, nil
		}); err != nil {
			return nil, err
		}
	}
	return keys, nil
}
