package pebble

import (
	"hash/crc32"
	"io"
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// guardedFile is a file open for writing; with a nil File writes are discarded.
type guardedFile struct {
	vfs.File
	guard  *guard
	extent extent // what was written to a log or manifest; kind 0 for any other file
}

// void reports whether changes must not reach the file.
func (f *guardedFile) void() bool { return f.File == nil || f.guard.void() }

// Write appends p.
func (f *guardedFile) Write(p []byte) (int, error) {
	if f.void() {
		return len(p), nil
	}
	if f.extent.length += int64(len(p)); f.extent.kind == extentManifest {
		f.extent.sum = crc32.Update(f.extent.sum, castagnoli, p) // first: the file below may change p
	}
	if _, err := f.File.Write(p); err != nil {
		f.guard.fail(err)
	}
	return len(p), nil
}

// WriteAt writes p at an offset.
func (f *guardedFile) WriteAt(p []byte, off int64) (int, error) {
	if f.void() {
		return len(p), nil
	}
	if _, err := f.File.WriteAt(p, off); err != nil {
		f.guard.fail(err)
	}
	return len(p), nil
}

// change calls do unless there was a failure, and records its error instead of returning it.
func (f *guardedFile) change(do func() error) error {
	if f.void() {
		return nil
	}
	return f.guard.change(do)
}

// Sync makes the file durable.
func (f *guardedFile) Sync() error { return f.syncWith(func() error { return f.File.Sync() }) }

// SyncData makes the file's bytes durable.
func (f *guardedFile) SyncData() error { return f.syncWith(func() error { return f.File.SyncData() }) }

// syncWith makes the file durable and reports to the recovery point what is.
func (f *guardedFile) syncWith(do func() error) error {
	e := f.extent
	err := f.change(do)
	f.guard.synced(e)
	return err
}

// SyncTo starts to make the beginning of the file durable.
func (f *guardedFile) SyncTo(length int64) (fullSync bool, err error) {
	if f.void() {
		return false, nil
	}
	if fullSync, err = f.File.SyncTo(length); err != nil {
		f.guard.fail(err)
	}
	return fullSync, nil
}

// Preallocate asks for room ahead of the writes. Its failure does not count: the write that needs the room
// will fail.
func (f *guardedFile) Preallocate(offset, length int64) error {
	if f.void() {
		return nil
	}
	return f.File.Preallocate(offset, length)
}

// Close closes the file.
func (f *guardedFile) Close() error {
	if f.File == nil {
		return nil
	}
	if err := f.File.Close(); err != nil && !f.guard.void() {
		f.guard.fail(err)
	}
	return nil
}

// Read reads on.
func (f *guardedFile) Read(p []byte) (int, error) {
	if f.File == nil {
		return 0, io.EOF
	}
	return f.File.Read(p)
}

// ReadAt reads at an offset.
func (f *guardedFile) ReadAt(p []byte, off int64) (int, error) {
	if f.File == nil {
		return 0, io.EOF
	}
	return f.File.ReadAt(p, off)
}

// Stat describes the file.
func (f *guardedFile) Stat() (vfs.FileInfo, error) {
	if f.File == nil {
		return voidInfo{}, nil
	}
	return f.File.Stat()
}

// Prefetch asks for bytes ahead of a read.
func (f *guardedFile) Prefetch(offset, length int64) error {
	if f.File == nil {
		return nil
	}
	return f.File.Prefetch(offset, length)
}

// Fd returns the descriptor of the file below; without one, none.
func (f *guardedFile) Fd() uintptr {
	if f.File == nil {
		return vfs.InvalidFd
	}
	return f.File.Fd()
}

// guardedDir is a folder that is opened to be synced.
type guardedDir struct{ guardedFile }

// Sync makes the names in the folder durable.
func (d *guardedDir) Sync() error {
	err := d.guardedFile.Sync()
	d.guard.moved()
	return err
}

// voidInfo describes a file whose writes are discarded.
type voidInfo struct{}

func (voidInfo) Name() string           { return "" }
func (voidInfo) Size() int64            { return 0 }
func (voidInfo) Mode() os.FileMode      { return 0 }
func (voidInfo) ModTime() time.Time     { return time.Time{} }
func (voidInfo) IsDir() bool            { return false }
func (voidInfo) Sys() any               { return nil }
func (voidInfo) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }
