package pebble

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	pebbledb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// span is a range of keys that a damaged table has lost. What other tables have of it is useless: the damaged
// one may have replaced or deleted it.
type span struct {
	table string // path of the file
	lower []byte // the first lost key
	upper []byte // the first key after the lost ones
	edge  []byte // the last readable key of the table before lower; nil if there is none
	cause error
}

// losses are the known lost ranges. A table is examined once one of its blocks could not be read.
type losses struct {
	fs   vfs.FS
	dir  string
	tell func(store.Damage) // may be nil

	halted   chan struct{} // closed when a compaction was halted that Pebble believes to be running
	haltOnce sync.Once

	mu       sync.Mutex
	spans    []span               // sorted by key
	examined map[string]time.Time // tables that were examined
}

// againAfter is how long after its examination a table that fails again is examined again.
const againAfter = 10 * time.Second

// found is called when a block of a table could not be read. The table's keys are from smallest to largest.
func (l *losses) found(path string, smallest, largest []byte, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.examined[path]; ok && time.Since(at) < againAfter {
		return
	}
	first := l.examined[path].IsZero()
	s, lost := examine(l.fs, path, smallest, largest, cause)
	if l.examined == nil {
		l.examined = map[string]time.Time{}
	}
	l.examined[path] = time.Now()
	if !lost {
		return
	}
	l.add(s)
	if first && l.tell != nil {
		l.tell(s.damage())
	}
}

// halt blocks the calling goroutine for ever.
func (l *losses) halt() {
	l.haltOnce.Do(func() { close(l.halted) })
	select {}
}

// unlessHalted calls f, which waits for Pebble's compactions. If one of them is halted, before or meanwhile,
// f never returns, and unlessHalted does not wait for it.
func (l *losses) unlessHalted(f func() error) error {
	select {
	case <-l.halted:
		return errHalted
	default:
	}
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-l.halted:
		return errHalted
	}
}

// errHalted reports that Pebble cannot be closed. What was acknowledged is durable without that.
var errHalted = errors.New("a compaction met damage and was halted")

// add adds a span, in place of an earlier one of its table.
func (l *losses) add(s span) {
	l.spans = slices.DeleteFunc(l.spans, func(old span) bool { return old.table == s.table })
	l.spans = append(l.spans, s)
	slices.SortFunc(l.spans, func(a, b span) int { return bytes.Compare(a.lower, b.lower) })
}

// within returns the spans that have keys from lower up to upper.
func (l *losses) within(lower, upper []byte) []span {
	l.mu.Lock()
	defer l.mu.Unlock()
	var in []span
	for _, s := range l.spans {
		if bytes.Compare(s.lower, upper) < 0 && bytes.Compare(lower, s.upper) < 0 {
			in = append(in, s)
		}
	}
	return in
}

// any reports whether anything is lost.
func (l *losses) any() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.spans) > 0
}

// check returns the error of a lost key; nil if the key is not lost.
func (l *losses) check(key []byte) error {
	if in := l.within(key, append(bytes.Clone(key), 0)); len(in) > 0 {
		return in[0].err()
	}
	return nil
}

// err returns the error for reading what is lost.
func (s *span) err() error { return &lostError{s.cause} }

// lostError reports a damaged table. It is a store.ErrDamaged.
type lostError struct{ cause error }

func (e *lostError) Error() string   { return "a table of the store is damaged: " + firstLine(e.cause) }
func (e *lostError) Unwrap() []error { return []error{store.ErrDamaged, e.cause} }

// firstLine returns an error's text without what Pebble appends to it.
func firstLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}

// damaged turns Pebble's errors about damage into this package's.
func damaged(err error) error {
	if err == nil || errors.Is(err, store.ErrDamaged) || !pebbledb.IsCorruptionError(err) {
		return err
	}
	return &lostError{err}
}

// damage returns the span in the form of the event.
func (s *span) damage() store.Damage {
	return store.Damage{Part: s.table, Cause: errors.New(firstLine(s.cause)),
		Partitions: partitionsOf(s.lower, s.upper)}
}

// partitionsOf returns the partitions that keys from lower to upper can belong to; none if that is not known.
func partitionsOf(lower, upper []byte) (numbers []int) {
	if lower == nil || upper == nil {
		return nil
	}
	number := func(key []byte) int {
		if len(key) < 2 {
			return 0
		}
		return int(key[0])<<8 | int(key[1])
	}
	for p := number(lower); p <= number(upper); p++ {
		if p == storePartition {
			numbers = append(numbers, -1)
			break
		}
		numbers = append(numbers, p)
	}
	return numbers
}

// examine reads a table from both ends for what can be read. lost is false if all of it can be. smallest and
// largest are nil if its keys are not known.
func examine(fs vfs.FS, path string, smallest, largest []byte, cause error) (s span, lost bool) {
	s = span{table: path, lower: bytes.Clone(smallest), cause: cause}
	if largest != nil {
		s.upper = append(bytes.Clone(largest), 0)
	}
	r, err := openTable(fs, path)
	if err != nil {
		s.cause = err
		return s, true // its index is damaged, so nothing can be found in it
	}
	defer func() { _ = r.Close() }() // it was only read
	last, err := walk(r, false)
	if err == nil && largest != nil && !bytes.Equal(last, largest) {
		s.cause = errOtherTable
		return s, true
	}
	if err == nil {
		return s, false
	}
	s.cause = err
	first, err := walk(r, true)
	if last != nil {
		s.edge, s.lower = last, append(bytes.Clone(last), 0)
	}
	if first != nil && err != nil {
		s.upper = append(bytes.Clone(first), 0) // a newer version of the first key may be lost
	}
	return s, true
}

// errOtherTable reports a table whose keys are not those that the manifest lists.
var errOtherTable = fmt.Errorf("it is another table than the manifest says: %w", errKey)

// openTable opens a table on its own, without the store.
func openTable(fs vfs.FS, path string) (*sstable.Reader, error) {
	file, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	readable, err := sstable.NewSimpleReadable(file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return sstable.NewReader(context.Background(), readable, tableOptions) // closes the file if it fails
}

// tableOptions are the options for reading what this package writes.
var tableOptions = func() sstable.ReaderOptions {
	o := &pebbledb.Options{FormatMajorVersion: formatMajorVersion}
	o.EnsureDefaults()
	return o.MakeReaderOptions()
}()

// walk reads a table, forwards or backwards, until it ends or cannot be read, and returns the last readable
// key.
func walk(r *sstable.Reader, back bool) (last []byte, err error) {
	it, err := r.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		return nil, err
	}
	start, step := it.First, it.Next
	if back {
		start, step = it.Last, it.Prev
	}
	for kv := start(); kv != nil; kv = step() {
		if _, _, err := kv.Value(nil); err != nil {
			return last, errors.Join(err, it.Close())
		}
		last = append(last[:0], kv.K.UserKey...)
	}
	return last, errors.Join(it.Error(), it.Close())
}

// source is where records are read from, and what of it is lost.
type source struct {
	pebbledb.Reader
	lost *losses
}

// get reads and copies one value.
func get(r source, key []byte) (value []byte, ok bool, err error) {
	if r.lost.any() {
		if err := r.lost.check(key); err != nil {
			return nil, false, err
		}
	}
	got, closer, err := r.Get(key)
	if errors.Is(err, pebbledb.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, damaged(err)
	}
	value = append([]byte(nil), got...)
	return value, true, closer.Close()
}

// need is get of a key that must be there; what names it in the error.
func need(r source, key []byte, what string, of carillon.Key) ([]byte, error) {
	value, ok, err := get(r, key)
	if err == nil && !ok {
		err = fmt.Errorf("%s of %s: %w", what, of, errKey)
	}
	return value, err
}

// each calls f with every key and value from lower to upper, until f returns false. f must not keep them. It
// fails where something is lost.
func each(r source, lower, upper []byte, f func(key, value []byte) (more bool, err error)) error {
	if in := r.lost.within(lower, upper); len(in) > 0 {
		return in[0].err()
	}
	_, err := scanAll(r, lower, upper, f)
	return damaged(err)
}

// eachLeft is each, but skips what is lost.
func eachLeft(r source, lower, upper []byte, f func(key, value []byte) (more bool, err error)) error {
	reached := bytes.Clone(lower)
	note := func(key, value []byte) (bool, error) {
		reached = append(append(reached[:0], key...), 0)
		return f(key, value)
	}
	for tries := 0; ; tries++ {
		more, err := scanLeft(r, bytes.Clone(reached), upper, note)
		if !more || err == nil || !pebbledb.IsCorruptionError(err) {
			return err
		}
		if len(r.lost.within(reached, upper)) == 0 || tries > maxLosses {
			return damaged(err) // nothing was found that could be skipped
		}
	}
}

// maxLosses is how many damaged tables one scan may discover.
const maxLosses = 100

// scanLeft scans around what is known to be lost.
func scanLeft(r source, lower, upper []byte,
	f func(key, value []byte) (more bool, err error)) (more bool, err error) {
	for _, s := range r.lost.within(lower, upper) {
		if bytes.Compare(lower, s.upper) >= 0 {
			continue // two tables have lost the same keys
		}
		end := s.lower
		if s.edge != nil {
			end = s.edge
		}
		if bytes.Compare(lower, end) < 0 {
			if more, err := scanAll(r, lower, end, f); err != nil || !more {
				return more, err
			}
		}
		if s.edge != nil && bytes.Compare(lower, s.edge) <= 0 {
			value, ok, err := get(r, s.edge)
			if errors.Is(err, store.ErrDamaged) {
				ok, err = false, nil // in another damaged table
			}
			if err != nil {
				return true, err
			}
			if ok {
				if more, err := f(s.edge, value); err != nil || !more {
					return more, err
				}
			}
		}
		lower = s.upper
	}
	if bytes.Compare(lower, upper) >= 0 {
		return true, nil
	}
	return scanAll(r, lower, upper, f)
}

// scanAll calls f with every key and value from lower to upper. more is false if f returned false, or failed.
func scanAll(r source, lower, upper []byte,
	f func(key, value []byte) (more bool, err error)) (more bool, err error) {
	it, err := r.NewIter(&pebbledb.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return true, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return true, errors.Join(err, it.Close())
		}
		if more, err := f(it.Key(), value); err != nil || !more {
			return false, errors.Join(err, it.Close())
		}
	}
	return true, it.Close() // returns the iterator's error
}

// left reports whether everything that a write of the record reads can be read.
func (v *view) left(ref store.Ref) bool {
	if !v.lost.any() {
		return true
	}
	if v.lost.check(appendHeadKey(nil, v.partition, ref)) != nil ||
		v.lost.check(appendSpecKey(nil, v.partition, ref)) != nil {
		return false
	}
	_, _, err := get(v.source, appendHeadKey(nil, v.partition, ref))
	return !errors.Is(err, store.ErrDamaged)
}
