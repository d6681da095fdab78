package pebble

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// guard stands between Pebble and the file system. Pebble answers a failed write of its log or manifest by
// ending the process, in places where no recover helps, and a failed flush by retrying without a pause. So
// the guard never returns the error of a change: it keeps the first one, and from then on reports success and
// changes nothing. The folder stays as it was at the failure, and the next Open recovers from that.
//
// Whoever waits for an fsync must check [guard.Err] after it: the failure is recorded before the fsync
// returns.
type guard struct {
	vfs.FS
	recovery *recovery     // told what is durable; nil if the engine is read-only
	folder   *folder       // the folder of these files
	failed   chan struct{} // closed at the first failure
	marker   atomic.Uint64 // generation of the newest marker file that was created
	mu       sync.Mutex
	err      error
}

func newGuard(f *folder) *guard {
	return &guard{FS: privately(f.fs), folder: f, failed: make(chan struct{})}
}

// Err returns the first failure, nil if there was none.
func (g *guard) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// fail records the first failure.
func (g *guard) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.err = err
		close(g.failed)
	}
}

// void reports whether there was a failure, so that changes must not reach the disk.
func (g *guard) void() bool {
	select {
	case <-g.failed:
		return true
	default:
		return false
	}
}

// change calls f unless there was a failure, and records its error instead of returning it.
func (g *guard) change(f func() error) error {
	if g.void() {
		return nil
	}
	if err := f(); err != nil {
		g.fail(err)
	}
	return nil
}

// open opens a file for writing. After a failure it is an empty file, in memory, that accepts everything and
// keeps nothing.
func (g *guard) open(name string, f func() (vfs.File, error)) (vfs.File, error) {
	file := &guardedFile{guard: g}
	_ = g.change(func() error {
		opened, err := f()
		if err == nil {
			file.File, file.extent = opened, extentOf(g.PathBase(name))
		}
		return err
	})
	if file.File == nil {
		file.File = vfs.NewMemFile(nil)
	}
	return file, nil
}

// Create creates a file.
func (g *guard) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return g.open(name, func() (vfs.File, error) {
		f, err := g.FS.Create(name, category)
		if marker, _, ok := cutMarker(g.PathBase(name)); ok && err == nil {
			g.marker.Store(marker)
		}
		return f, err
	})
}

// OpenReadWrite opens a file for reading and writing.
func (g *guard) OpenReadWrite(name string, category vfs.DiskWriteCategory,
	opts ...vfs.OpenOption) (vfs.File, error) {
	return g.open(name, func() (vfs.File, error) { return g.FS.OpenReadWrite(name, category, opts...) })
}

// ReuseForWrite renames a file and opens it.
func (g *guard) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	g.forget(oldname)
	return g.open(newname, func() (vfs.File, error) { return g.FS.ReuseForWrite(oldname, newname, category) })
}

// OpenDir opens a folder, to sync it.
func (g *guard) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &guardedDir{guardedFile{guard: g, File: f}}, nil
}

// Link makes a hard link.
func (g *guard) Link(oldname, newname string) error {
	return g.change(func() error { return g.FS.Link(oldname, newname) })
}

// Rename renames a file.
func (g *guard) Rename(oldname, newname string) error {
	return g.change(func() error { return g.FS.Rename(oldname, newname) })
}

// MkdirAll makes a folder.
func (g *guard) MkdirAll(dir string, perm os.FileMode) error {
	return g.change(func() error { return g.FS.MkdirAll(dir, perm) })
}

// Remove removes a file. It returns that the file does not exist; any other failure only costs room.
func (g *guard) Remove(name string) error {
	g.forget(name)
	if g.void() {
		return nil
	}
	if err := g.FS.Remove(name); errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// RemoveAll removes a folder.
func (g *guard) RemoveAll(name string) error {
	return g.change(func() error { return g.FS.RemoveAll(name) })
}

// synced is called after an fsync of a file. It moves the recovery point, and checks that the folder is still
// ours.
func (g *guard) synced(e extent) {
	if e.kind == 0 || g.recovery == nil || g.void() {
		return
	}
	if err := g.folder.held(); err != nil {
		g.fail(err)
		return
	}
	g.recovery.synced(e)
}

// forget is called before a file is removed or reused.
func (g *guard) forget(name string) {
	if e := extentOf(g.PathBase(name)); e.kind != 0 && g.recovery != nil {
		g.recovery.forget(e.kind, e.number)
	}
}

// moved is called when the names in the folder have become durable.
func (g *guard) moved() {
	if marker := g.marker.Swap(0); marker != 0 && g.recovery != nil && !g.void() {
		g.recovery.moved(marker)
	}
}

// Unwrap returns the file system below.
func (g *guard) Unwrap() vfs.FS { return g.FS }
