package pebble

import (
	"io"
	"io/fs"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A store holds payloads, and the key that signs tokens: only its user should read it. So its folder is
// created with mode 0700 and its files with 0600, whatever the umask says. If the mode was widened, Open
// reports it and leaves it alone.
const (
	folderMode = 0o700
	fileMode   = 0o600
)

// privately returns fs, whose new files are private; only the operating system's file system knows modes.
func privately(under vfs.FS) vfs.FS {
	if under != vfs.Default {
		return under
	}
	return privateFS{under}
}

// privateFS is the operating system's file system, with private files.
type privateFS struct{ vfs.FS }

// Create creates a file.
func (p privateFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := p.FS.Create(name, category)
	return p.private(name, f, err)
}

// OpenReadWrite opens a file for reading and writing, and creates it if needed.
func (p privateFS) OpenReadWrite(name string, category vfs.DiskWriteCategory,
	opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := p.FS.OpenReadWrite(name, category, opts...)
	return p.private(name, f, err)
}

// Lock locks a file, and creates it if needed. A user who can open it could keep the store from being opened.
func (p privateFS) Lock(name string) (io.Closer, error) {
	lock, err := p.FS.Lock(name)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(name, fileMode); err != nil {
		_ = lock.Close() // the error that counts is there
		return nil, err
	}
	return lock, nil
}

// MkdirAll creates a folder and its parents.
func (p privateFS) MkdirAll(dir string, _ os.FileMode) error { return p.FS.MkdirAll(dir, folderMode) }

// Unwrap returns the file system below, for Pebble.
func (p privateFS) Unwrap() vfs.FS { return p.FS }

// private makes an opened file private.
func (p privateFS) private(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(name, fileMode); err != nil {
		_ = f.Close() // the error that counts is there
		return nil, err
	}
	return f, nil
}

// exposed reports whether users other than the folder's may look into it, and its mode.
func (f *folder) exposed() (mode fs.FileMode, is bool) {
	if f.fs != vfs.Default {
		return 0, false
	}
	info, err := os.Stat(f.dir)
	if err != nil {
		return 0, false // opening it reports the error
	}
	mode = info.Mode().Perm()
	return mode, mode&0o077 != 0
}
