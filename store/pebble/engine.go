package pebble

import (
	"sync"

	pebbledb "github.com/cockroachdb/pebble/v2"
)

// engine is one opened Pebble. After a failed write the store closes it and opens another.
type engine struct {
	db       *pebbledb.DB
	guard    *guard
	dir      string // for errors
	readOnly bool
	gone     chan struct{} // closed when another engine is in force
}

// openEngine opens Pebble in the folder. The guard's error, the first there was, goes before what Pebble made of it.
func openEngine(f *folder, opt *Options, readOnly bool) (*engine, error) {
	g := newGuard(f.fs)
	l := &listener{Events: opt.Events, guard: g}
	db, err := pebbledb.Open(f.path(), opt.pebbleOptions(g, l, readOnly, f.ready))
	if first := g.Err(); first != nil {
		if db != nil {
			_ = db.Close() // it was opened onto nothing
		}
		return nil, folderError(f.dir, first)
	}
	if err != nil {
		return nil, folderError(f.dir, err)
	}
	return &engine{db: db, guard: g, dir: f.dir, readOnly: readOnly, gone: make(chan struct{})}, nil
}

// failure is what first went wrong, nil if nothing did.
func (e *engine) failure() error { return folderError(e.dir, e.guard.Err()) }

// close closes Pebble and reports what did not reach the disk.
func (e *engine) close() error {
	err := e.db.Close()
	if first := e.failure(); first != nil {
		return first
	}
	return folderError(e.dir, err)
}

// holder holds the engine in force. Readers keep it open; whoever replaces it waits for them.
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

// reason is why the store cannot write; nil if it can.
func (h *holder) reason() error {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.why
}

// replace closes the engine in force and puts in what open returns; why is the reason that it cannot write.
func (h *holder) replace(open func() (e *engine, why error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if old := h.now; old != nil {
		_ = old.close() // it is being replaced because it failed
		defer close(old.gone)
	}
	h.now, h.why = open()
}
