package pebble_test

import (
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/pebble"
	"github.com/carillonhq/carillon/server/store/storetest"
)

// places remember where the suite's stores are, so that it can close, crash and open them again.
type places struct {
	mu  sync.Mutex
	all map[store.Store]*place
}

// place is a store's disk and clock.
type place struct {
	dir   string
	fs    *vfs.MemFS // nil: a real folder
	clock *clock
}

// clock is a store's clock; it stands still until it is advanced.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (p *places) open(t testing.TB, at *place) store.Store {
	t.Helper()
	opt := pebble.Options{Now: at.clock.Now, MemTableBytes: 1 << 20}
	if at.fs != nil {
		opt.FS = at.fs
	}
	s, err := pebble.Open(at.dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	p.all[s] = at
	p.mu.Unlock()
	t.Cleanup(func() { p.close(t, s) })
	return s
}

// close closes a store once and says where it was.
func (p *places) close(t testing.TB, s store.Store) *place {
	t.Helper()
	p.mu.Lock()
	at := p.all[s]
	delete(p.all, s)
	p.mu.Unlock()
	if at != nil {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	return at
}

// options are the suite's hooks; a store that was reopened lives on the same disk.
func (p *places) options(first func(t testing.TB) *place) storetest.Options {
	return storetest.Options{
		Alone:  true,
		Open:   func(t testing.TB) store.Store { return p.open(t, first(t)) },
		Reopen: func(t testing.TB, s store.Store) store.Store { return p.open(t, p.close(t, s)) },
		Advance: func(_ testing.TB, s store.Store, d time.Duration) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.all[s].clock.advance(d)
		},
	}
}

func newPlaces() *places { return &places{all: make(map[store.Store]*place)} }

func newClock() *clock { return &clock{now: time.Date(2026, 11, 21, 2, 0, 0, 0, time.UTC)} }

// TestSuiteFolder runs the suite on the system's file system.
func TestSuiteFolder(t *testing.T) {
	p := newPlaces()
	storetest.RunOptions(t, p.options(func(t testing.TB) *place {
		return &place{dir: t.TempDir(), clock: newClock()}
	}))
}

// TestSuiteCrash runs the suite on a disk that forgets, at a crash, everything that was not synced.
func TestSuiteCrash(t *testing.T) {
	if testing.Short() {
		t.Skip("-short has the suite once, on a folder")
	}
	p := newPlaces()
	o := p.options(func(testing.TB) *place {
		return &place{dir: "store", fs: vfs.NewCrashableMem(), clock: newClock()}
	})
	o.Crash = func(t testing.TB, s store.Store) store.Store {
		p.mu.Lock()
		at := p.all[s]
		p.mu.Unlock()
		after := &place{dir: at.dir, fs: at.fs.CrashClone(vfs.CrashCloneCfg{}), clock: at.clock}
		p.close(t, s)
		return p.open(t, after)
	}
	storetest.RunOptions(t, o)
}
