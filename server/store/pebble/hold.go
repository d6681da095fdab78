package pebble

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Three things keep two processes from writing one folder. The first is the lock file, as long as it exists.
// Since it may be deleted, the folder itself is locked, too, on systems that can. And at every fsync the
// writer checks that the recovery point that it opened is still the folder's: if the folder was deleted, or
// restored under a running node, it is gone or is another file.

// holds are locks that are released together.
type holds []io.Closer

// Close releases the locks, the last one first.
func (h holds) Close() (err error) {
	for _, lock := range slices.Backward(h) {
		err = cmp.Or(err, lock.Close())
	}
	return err
}

// take locks the folder.
func (f *folder) take() error {
	file, err := privately(f.fs).Lock(f.file(lockFile))
	if err != nil {
		return f.notLocked(err)
	}
	f.lock = holds{file}
	if f.fs != vfs.Default {
		return nil
	}
	dir, err := lockFolder(f.dir)
	if err != nil {
		_ = file.Close() // the error that counts is there
		return f.notLocked(err)
	}
	f.lock = holds{file, dir}
	return nil
}

// hold remembers which file holds the recovery point.
func (f *folder) hold() error {
	if f.fs != vfs.Default {
		return nil
	}
	own, err := os.Stat(f.file(recoveryFile))
	if err != nil {
		return err
	}
	f.held = func() error {
		now, err := os.Stat(f.file(recoveryFile))
		if err == nil && !os.SameFile(own, now) {
			err = fmt.Errorf("file %s is another one", recoveryFile)
		}
		if err != nil {
			return &FolderError{Kind: ErrReplaced, Dir: f.dir, Err: err}
		}
		return nil
	}
	return nil
}
