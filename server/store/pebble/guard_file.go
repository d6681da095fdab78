package pebble

import (
	"hash/crc32"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// guardedFile is a file open for writing. After a failure writes are discarded.
type guardedFile struct {
	vfs.File
	guard  *guard
	extent extent // what was written to a log or manifest; kind 0 for any other file
}

// Write appends p.
func (f *guardedFile) Write(p []byte) (int, error) {
	if f.guard.void() {
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
	return len(p), f.guard.change(func() error {
		_, err := f.File.WriteAt(p, off)
		return err
	})
}

// Sync makes the file durable.
func (f *guardedFile) Sync() error { return f.syncWith(func() error { return f.File.Sync() }) }

// SyncData makes the file's bytes durable.
func (f *guardedFile) SyncData() error { return f.syncWith(func() error { return f.File.SyncData() }) }

// syncWith makes the file durable and reports to the recovery point what is.
func (f *guardedFile) syncWith(do func() error) error {
	e := f.extent
	err := f.guard.change(do)
	f.guard.synced(e)
	return err
}

// SyncTo starts to make the beginning of the file durable.
func (f *guardedFile) SyncTo(length int64) (fullSync bool, err error) {
	err = f.guard.change(func() (err error) {
		fullSync, err = f.File.SyncTo(length)
		return err
	})
	return fullSync, err
}

// Preallocate asks for room ahead of the writes. Its failure does not count: the write that needs the room
// will fail.
func (f *guardedFile) Preallocate(offset, length int64) error {
	if f.guard.void() {
		return nil
	}
	return f.File.Preallocate(offset, length)
}

// Close closes the file.
func (f *guardedFile) Close() error {
	if err := f.File.Close(); err != nil {
		f.guard.fail(err)
	}
	return nil
}

// guardedDir is a folder that is opened to be synced.
type guardedDir struct{ guardedFile }

// Sync makes the names in the folder durable.
func (d *guardedDir) Sync() error {
	err := d.guardedFile.Sync()
	d.guard.moved()
	return err
}
