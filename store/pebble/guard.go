package pebble

import (
	"errors"
	"os"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// guard stands between Pebble and the file system. Pebble answers a failed write of its log or manifest by ending the
// process, in places where no recover helps, and a failed flush by trying again without a pause. So the guard never
// returns the error of a change: it keeps the first one, and from then on reports success and changes nothing. The folder
// stays as it was at the failure, which is what the next Open recovers from.
//
// Whoever waits for an fsync must look at [guard.Err] after it: the failure is recorded before the fsync returns.
type guard struct {
	vfs.FS
	failed chan struct{} // closed at the first failure
	mu     sync.Mutex
	err    error
}

func newGuard(fs vfs.FS) *guard { return &guard{FS: fs, failed: make(chan struct{})} }

// Err is the first failure, nil if there was none.
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

// change makes a change unless there was a failure, and swallows its error.
func (g *guard) change(f func() error) error {
	if g.void() {
		return nil
	}
	if err := f(); err != nil {
		g.fail(err)
	}
	return nil
}

// file wraps a file that was opened for writing; after a failure, it is one that takes everything and keeps nothing.
func (g *guard) file(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		g.fail(err)
		return &guardedFile{guard: g}, nil
	}
	return &guardedFile{guard: g, File: f}, nil
}

// Create makes a file.
func (g *guard) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if g.void() {
		return &guardedFile{guard: g}, nil
	}
	return g.file(g.FS.Create(name, category))
}

// OpenReadWrite opens a file for both.
func (g *guard) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if g.void() {
		return &guardedFile{guard: g}, nil
	}
	return g.file(g.FS.OpenReadWrite(name, category, opts...))
}

// ReuseForWrite renames a file and opens it.
func (g *guard) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if g.void() {
		return &guardedFile{guard: g}, nil
	}
	return g.file(g.FS.ReuseForWrite(oldname, newname, category))
}

// OpenDir opens a folder, to sync it.
func (g *guard) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &guardedFile{guard: g, File: f}, nil
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

// Remove removes a file. That it is not there is told; any other failure costs only room.
func (g *guard) Remove(name string) error {
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

// Unwrap is the file system below.
func (g *guard) Unwrap() vfs.FS { return g.FS }
