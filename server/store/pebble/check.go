package pebble

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	pebbledb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	"github.com/carillonhq/carillon/server/store/ordered"
)

// Checked is the result of [Check].
type Checked struct {
	Refused error        // why Open would refuse the folder; nil if it would not
	Tables  int          // tables that were read
	Records int          // jobs and pending runs that can be read
	Damaged []Damage     // damaged tables
	Lost    []LostRecord // as far as their names can be read
}

// Whole reports whether nothing is wrong.
func (c *Checked) Whole() bool { return c.Refused == nil && len(c.Damaged) == 0 && len(c.Lost) == 0 }

// Damage is a damaged table, and the keys that it has lost.
type Damage struct {
	store.Damage
	From, To string // descriptions of the records between which keys are lost
}

// LostRecord is a job, or a run of one, of which only the name and perhaps a part can be read, or which no
// list has.
type LostRecord struct {
	Partition int
	Key       carillon.Key
	What      string
}

// Check reads everything in the folder of a store that is not in use, and changes nothing. Its error means
// that it could not.
func Check(dir string, opt Options) (*Checked, error) {
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, err
	}
	f := newFolder(dir, &opt)
	if err := f.lockMade(); err != nil {
		return nil, err
	}
	defer func() { _ = f.lock.Close() }() // nothing was written
	c := &Checked{}
	if _, err := f.loadRecovery(); err != nil {
		if !errors.Is(err, ErrDamaged) {
			return nil, err
		}
		c.Refused = err
	}
	e, err := openEngine(f, &opt, true)
	if err != nil {
		if c.Refused == nil {
			c.Refused = err
		}
		err = c.loose(f)
		return c, err
	}
	err = c.through(e)
	return c, errors.Join(err, e.close())
}

// loose reads the tables of a folder that cannot be opened.
func (c *Checked) loose(f *folder) error {
	names, err := f.fs.List(f.path())
	if err != nil {
		return folderError(f.dir, err)
	}
	slices.Sort(names)
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") {
			c.table(&losses{fs: f.fs}, f.fs.PathJoin(f.path(), name), nil, nil)
		}
	}
	return nil
}

// through reads the tables of an open store, and then the records.
func (c *Checked) through(e *engine) error {
	levels, err := e.db.SSTables()
	if err != nil {
		return err
	}
	for _, tables := range levels {
		for _, t := range tables {
			path := e.guard.PathJoin(e.lost.dir, fmt.Sprintf("%06d.sst", t.BackingSSTNum))
			if t.Virtual {
				c.table(e.lost, path, nil, nil) // several tables share the file
			} else {
				c.table(e.lost, path, t.Smallest.UserKey, t.Largest.UserKey)
			}
		}
	}
	m, err := readMeta(e.db)
	if errors.Is(err, pebbledb.ErrNotFound) || errors.Is(err, store.ErrDamaged) ||
		pebbledb.IsCorruptionError(err) {
		c.Refused = &FolderError{Kind: ErrDamaged, Dir: e.dir,
			Err: fmt.Errorf("its metadata cannot be read: %w", damaged(err))}
		return nil
	}
	if err != nil {
		return err
	}
	for p := range m.Partitions {
		if err := c.partition(source{e.db, e.lost}, p); err != nil {
			return err
		}
		if m.Format != store.Format() {
			continue // its lists are made when it is opened
		}
		if err := c.lists(source{e.db, e.lost}, p); err != nil {
			return err
		}
	}
	return nil
}

// table reads a whole table.
func (c *Checked) table(l *losses, path string, smallest, largest []byte) {
	c.Tables++
	s, lost := examine(l.fs, path, smallest, largest, nil)
	if !lost {
		return
	}
	l.add(s)
	c.Damaged = append(c.Damaged, Damage{Damage: s.damage(), From: inWords(s.edge), To: inWords(s.upper)})
}

// verifyTables compares tables of equal sizes, which could have each other's names: Pebble compares sizes
// only.
func (e *engine) verifyTables() error {
	levels, err := e.db.SSTables()
	if err != nil {
		return err
	}
	bySize := map[uint64][]pebbledb.SSTableInfo{}
	for _, t := range slices.Concat(levels...) {
		if !t.Virtual {
			bySize[t.Size] = append(bySize[t.Size], t)
		}
	}
	for _, same := range bySize {
		if len(same) == 1 {
			continue
		}
		for _, t := range same {
			path := e.guard.PathJoin(e.lost.dir, fmt.Sprintf("%06d.sst", t.BackingSSTNum))
			last, err := lastKey(e.guard.FS, path)
			if err == nil && !bytes.Equal(last, t.Largest.UserKey) {
				return fmt.Errorf("file %s: %w", path, errOtherTable)
			}
		}
	}
	return nil
}

// lastKey returns the last key of a table.
func lastKey(fs vfs.FS, path string) (key []byte, err error) {
	r, err := openTable(fs, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	it, err := r.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		return nil, err
	}
	if kv := it.Last(); kv != nil {
		key = bytes.Clone(kv.K.UserKey)
	}
	return key, errors.Join(it.Error(), it.Close())
}

// partition reads the records of a partition by their names and by their due times: what only one of the two
// has is lost.
func (c *Checked) partition(r source, p int) error {
	named := func(kind byte) error {
		lower, upper := bounds(appendHead(nil, p, kind))
		return eachLeft(r, lower, upper, func(key, value []byte) (bool, error) {
			ref, err := ordered.ParseRef(key[headLen:])
			if err != nil {
				return false, err
			}
			v := view{source: r, partition: p}
			if _, err := v.recordOf(ref, value, 0); errors.Is(err, store.ErrDamaged) {
				c.lose(p, ref, "its state or its spec")
				return true, nil
			} else if err != nil {
				return false, err
			}
			c.Records++
			return true, nil
		})
	}
	if err := errors.Join(named(kindHead), named(kindPending)); err != nil {
		return err
	}
	lower, upper := bounds(appendHead(nil, p, kindDue))
	return eachLeft(r, lower, upper, func(key, _ []byte) (bool, error) {
		cut := ordered.Cutter{B: key[headLen+1:]}
		cut.Time()
		ref := cut.Ref()
		if err := cut.End(); err != nil {
			return false, err
		}
		_, ok, err := get(r, appendHeadKey(nil, p, ref))
		if errors.Is(err, store.ErrDamaged) || err == nil && !ok {
			c.lose(p, ref, "its entry by name")
			err = nil
		}
		return true, err
	})
}

// lists looks for the records of a partition in the lists by phase, and for its finished runs in those by
// status.
func (c *Checked) lists(r source, p int) error {
	listed := func(key []byte, of store.Ref, what string) error {
		_, ok, err := get(r, key)
		if errors.Is(err, store.ErrDamaged) || err == nil && !ok {
			c.lose(p, of, what)
			return nil
		}
		return err
	}
	for _, kind := range []byte{kindHead, kindPending} {
		lower, upper := bounds(appendHead(nil, p, kind))
		if err := eachLeft(r, lower, upper, func(key, value []byte) (bool, error) {
			h, err := parseHead(p, value)
			if err != nil || h.phase == carillon.PhaseScheduled {
				return true, err
			}
			ref, err := ordered.ParseRef(key[headLen:])
			if err != nil {
				return false, err
			}
			return true, listed(appendPhaseKey(nil, p, h.phase, ref), ref, "its entry by phase")
		}); err != nil {
			return err
		}
	}
	lower, upper := bounds(appendHead(nil, p, kindHistory))
	return eachLeft(r, lower, upper, func(_, value []byte) (bool, error) {
		run, err := codec.DecodeRun(value)
		if err != nil {
			return false, err
		}
		what := fmt.Sprintf("finished run %s: its entry by status", run.ID)
		return true, listed(appendFinishedKey(nil, p, &run), store.Ref{Key: run.Key}, what)
	})
}

func (c *Checked) lose(p int, ref store.Ref, what string) {
	if ref.Seq != 0 {
		what = fmt.Sprintf("pending run %d: %s", ref.Seq, what)
	}
	c.Lost = append(c.Lost, LostRecord{Partition: p, Key: ref.Key, What: what})
}

// kindWords names the kinds of keys for people.
var kindWords = map[byte]string{
	kindHead: "job", kindPending: "pending run", kindDue: "due entry", kindStaged: "staged entry",
	kindSpec: "spec", kindLive: "unfinished run", kindHistory: "finished run", kindAge: "retention entry",
	kindFinished: "finished run by status", kindPhase: "phase entry",
	kindMetaRecord: "settings", kindMeta: "metadata of the store",
	kindOwner: "term of a partition",
}

// inWords describes a key, as far as it can be read.
func inWords(key []byte) string {
	if len(key) < headLen {
		return ""
	}
	key = bytes.TrimSuffix(key, []byte{0}) // a key that only marks a place after another ends with a zero
	kind := kindWords[key[2]]
	if int(key[0])<<8|int(key[1]) == storePartition {
		return kind
	}
	text := fmt.Sprintf("partition %d, %s", int(key[0])<<8|int(key[1]), kind)
	rest := key[headLen:]
	if key[2] == kindDue && len(rest) > 1+8 {
		rest = rest[1+8:]
	}
	switch key[2] {
	case kindHead, kindPending, kindSpec, kindDue:
		c := ordered.Cutter{B: rest}
		if namespace, name := c.Text(), c.Text(); !c.Bad {
			text += fmt.Sprintf(" %s/%s", namespace, name)
		}
	}
	return text
}
