package pebble

import (
	"errors"
	"testing"

	pebbledb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// opened is an engine in a folder in memory.
func opened(t *testing.T, readOnly bool, fs vfs.FS) *engine {
	t.Helper()
	opt, err := Options{FS: fs}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	e, err := openEngine(newFolder("store", &opt), &opt, readOnly)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestReadersKeepAnEngineOpen: one that is replaced is closed when they are done, and whoever waits for its
// end is told.
func TestReadersKeepAnEngineOpen(t *testing.T) {
	fs := vfs.NewMem()
	if err := fs.MkdirAll("store", 0o755); err != nil {
		t.Fatal(err)
	}
	h := holder{now: opened(t, false, fs)}
	first := h.now
	why := errors.New("the disk is full")
	if err := h.use(func(e *engine) error {
		if h.mu.TryLock() {
			t.Error("it can be replaced while it is read")
			h.mu.Unlock()
		}
		_, _, err := e.db.Get([]byte("none"))
		return err
	}); !errors.Is(err, pebbledb.ErrNotFound) {
		t.Errorf("a read: %v", err)
	}
	h.replace(func() (*engine, error) { return nil, why })
	<-first.gone
	if err := h.use(func(*engine) error { t.Error("there is none to use"); return nil }); !errors.Is(err, why) ||
		!errors.Is(h.reason(), why) {
		t.Errorf("%v, %v", err, h.reason())
	}
	h.replace(func() (*engine, error) { return opened(t, true, fs), why })
	if err := h.use(func(e *engine) error { return nil }); err != nil || !errors.Is(h.reason(), why) {
		t.Errorf("it can be read: %v; it cannot be written: %v", err, h.reason())
	}
	if err := h.now.close(); err != nil {
		t.Error(err)
	}
}

// TestAnEngineThatFailedSaysWhy when it is closed: what was not synced may be lost.
func TestAnEngineThatFailedSaysWhy(t *testing.T) {
	fs := vfs.NewMem()
	if err := fs.MkdirAll("store", 0o755); err != nil {
		t.Fatal(err)
	}
	e := opened(t, false, fs)
	e.guard.fail(errKey)
	if err := e.close(); !errors.Is(err, errKey) || !errors.Is(err, ErrDamaged) {
		t.Errorf("it says %v", err)
	}
}
