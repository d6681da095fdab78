package pebble

import (
	"cmp"
	"errors"
	"fmt"
	"sync"

	pebbledb "github.com/cockroachdb/pebble/v2"
)

// engine is one opened Pebble. After a failed write the store closes it and opens another.
type engine struct {
	db       *pebbledb.DB
	guard    *guard
	dir      string // for errors
	lost     *losses
	readOnly bool
	gone     chan struct{} // closed when another engine is in force
}

// openEngine opens Pebble in the folder. For writing, the folder is first compared with its recovery point.
// The guard's error, the first one, takes precedence over what Pebble made of it.
func openEngine(f *folder, opt *Options, readOnly bool) (*engine, error) {
	e := &engine{guard: newGuard(f), dir: f.dir, readOnly: readOnly, gone: make(chan struct{})}
	if !readOnly {
		point, err := f.loadRecovery()
		if err != nil {
			return nil, err
		}
		if e.guard.recovery, err = newRecovery(f, e.guard, point); err != nil {
			return nil, folderError(f.dir, err)
		}
	}
	e.lost = &losses{fs: f.fs, dir: f.path(), tell: opt.Events.Damaged, halted: make(chan struct{})}
	l := &listener{log: opt.Log, guard: e.guard, lost: e.lost}
	var err error
	e.db, err = openPebble(f.path(), opt.pebbleOptions(e.guard, l, readOnly, f.ready))
	if err == nil && !readOnly {
		err = e.verifyTables()
	}
	if err = cmp.Or(e.failure(), err); err != nil {
		_ = e.release(false) // the error that counts is there
		return nil, folderError(f.dir, err)
	}
	return e, nil
}

// openPebble is Pebble's Open. A panic means that Pebble found something wrong in its files.
func openPebble(dir string, opt *pebbledb.Options) (db *pebbledb.DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errKey, p)
		}
	}()
	db, err = pebbledb.Open(dir, opt)
	if err != nil && !systemError(err) {
		err = fmt.Errorf("%w: %w", errKey, err) // it is about the contents of its files
	}
	return db, err
}

// release closes Pebble and the recovery point, in this order.
func (e *engine) release(clean bool) error {
	var err error
	if e.db != nil {
		err = e.lost.unlessHalted(e.db.Close)
	}
	if errors.Is(err, errHalted) {
		e.guard.fail(err) // what is left of Pebble writes nothing more, and ends with the process
	}
	if r := e.guard.recovery; r != nil {
		err = errors.Join(err, r.close(clean && err == nil && e.failure() == nil))
	}
	return err
}

// failure returns the first failure, nil if there was none.
func (e *engine) failure() error { return folderError(e.dir, e.guard.Err()) }

// close closes Pebble and reports what did not reach the disk. Unless the disk has failed, everything
// acknowledged is in tables then, and nothing in a log.
func (e *engine) close() error {
	clean := false
	if !e.readOnly && e.failure() == nil {
		clean = e.lost.unlessHalted(e.db.Flush) == nil
	}
	err := e.release(clean)
	if first := e.failure(); first != nil && !errors.Is(first, errHalted) {
		return first
	}
	if errors.Is(err, errHalted) {
		return nil
	}
	return folderError(e.dir, err)
}

// holder holds the engine in force. Readers keep it open; replacing it waits for them.
type holder struct {
	mu  sync.RWMutex
	now *engine // nil: none could be opened
	why error   // why the store cannot write; nil if it can
}

// use calls f with the engine in force.
func (h *holder) use(f func(e *engine) error) error {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.now == nil {
		return h.why
	}
	return f(h.now)
}

// reason returns why the store cannot write; nil if it can.
func (h *holder) reason() error {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.why
}

// replace closes the engine in force and installs what open returns; why is the reason that it cannot write.
func (h *holder) replace(open func() (e *engine, why error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if old := h.now; old != nil {
		_ = old.close() // it is replaced because it failed
		defer close(old.gone)
	}
	h.now, h.why = open()
}
