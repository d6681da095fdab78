package pebble

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Files in a store's folder.
const (
	markFile     = "CARILLON" // marks the folder as a store, and of which format
	markTemp     = "CARILLON.tmp"
	lockFile     = "LOCK"
	recoveryFile = "RECOVERY" // what a start must find
	dbFolder     = "db"       // Pebble's files
)

// Formats of a folder. Each is written by the first open of a program that knows it.
const (
	formatFirst    = 1
	formatRecovery = 2 // has a recovery point
	folderFormat   = formatRecovery
)

// A mark is "carillon store, format 2, ready": what the folder is, and that the store in it was created
// completely.
const (
	markFormat = "carillon store, format %d, %s\n"
	markMaking = "making"
	markReady  = "ready"
)

// folder is the locked folder of a store.
type folder struct {
	fs    vfs.FS
	dir   string
	lock  io.Closer
	ready bool // the store was created completely
	// format is the folder's; 0 if it is new.
	format int
	// held fails when the folder is no longer the one that was opened.
	held func() error
}

func newFolder(dir string, opt *Options) *folder {
	return &folder{fs: opt.FS, dir: dir, held: func() error { return nil }}
}

// lockMade locks an existing folder whose store was created completely.
func (f *folder) lockMade() error {
	if f.fs == vfs.Default {
		if err := f.resolve(); err != nil {
			return err
		}
	}
	if marked, err := f.look(); err != nil {
		return err
	} else if _, err := f.fs.Stat(f.dir); errors.Is(err, fs.ErrNotExist) {
		return &FolderError{Kind: ErrNotFolder, Dir: f.dir, Err: errors.New("there is nothing at this path")}
	} else if !marked || !f.ready {
		return &FolderError{Kind: ErrForeign, Dir: f.dir, Err: errors.New("there is no store in it")}
	}
	if err := f.take(); err != nil {
		return err
	}
	_, err := f.look()
	if err != nil {
		_ = f.lock.Close() // the error that counts is there
	}
	return err
}

// openFolder checks the folder, creates it if needed, and locks it.
func openFolder(dir string, opt *Options) (*folder, error) {
	f := newFolder(dir, opt)
	if opt.FS == vfs.Default {
		if err := f.resolve(); err != nil {
			return nil, err
		}
	}
	if _, err := f.look(); err != nil {
		return nil, err
	}
	if err := f.fs.MkdirAll(f.dir, folderMode); err != nil {
		return nil, notMade(f.dir, err)
	}
	if opt.FS == vfs.Default {
		if name, remote := remoteFileSystem(f.dir); remote {
			return nil, &FolderError{Kind: ErrNetworkFolder, Dir: f.dir, Err: errors.New(name)}
		}
	}
	if err := f.take(); err != nil {
		return nil, err
	}
	if err := f.begin(); err != nil {
		_ = f.lock.Close() // the error that counts is there
		return nil, err
	}
	return f, nil
}

// resolve makes the path absolute and free of links, so that one folder has one name and is locked once.
func (f *folder) resolve() error {
	abs, err := filepath.Abs(f.dir)
	if err != nil {
		return folderError(f.dir, err)
	}
	f.dir = abs
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		f.dir = real
	} else if !errors.Is(err, fs.ErrNotExist) {
		return folderError(f.dir, err)
	}
	return nil
}

// look reports whether the folder has a mark, and refuses foreign contents. It changes nothing there.
func (f *folder) look() (marked bool, err error) {
	info, err := f.fs.Stat(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, folderError(f.dir, err)
	}
	if !info.IsDir() {
		return false, &FolderError{Kind: ErrNotFolder, Dir: f.dir}
	}
	names, err := f.fs.List(f.dir)
	if err != nil {
		return false, folderError(f.dir, err)
	}
	if slices.Contains(names, markFile) {
		return true, f.readMark()
	}
	if slices.Contains(names, recoveryFile) && slices.Contains(names, dbFolder) {
		return false, f.broken(markFile, "missing")
	}
	for _, name := range names {
		if name != markTemp && name != lockFile && name != "lost+found" {
			return false, &FolderError{Kind: ErrForeign, Dir: f.dir,
				Err: fmt.Errorf("found %q and no file %q", name, markFile)}
		}
	}
	return false, nil
}

// readMark reads the mark and refuses a format that this program does not know.
func (f *folder) readMark() error {
	text, err := f.read(markFile)
	if err != nil {
		return folderError(f.dir, err)
	}
	var format int
	var state string
	_, err = fmt.Sscanf(string(text), markFormat, &format, &state)
	known := err == nil && string(text) == fmt.Sprintf(markFormat, format, state)
	if known && format > folderFormat {
		return &FolderError{Kind: ErrNewer, Dir: f.dir,
			Err: fmt.Errorf("its format is %d, this program knows up to %d", format, folderFormat)}
	}
	if !known || format < formatFirst || state != markReady && state != markMaking {
		return f.broken(markFile, "it says %.60q", text)
	}
	f.format, f.ready = format, state == markReady
	return nil
}

// notLocked returns why the folder could not be locked.
func (f *folder) notLocked(err error) error {
	// A *PathError: the lock file could not be created. A bare errno, or Pebble's own error about a lock that
	// this process holds: it could not be locked.
	_, path := errors.AsType[*fs.PathError](err)
	errno, system := errors.AsType[syscall.Errno](err)
	if path || system && errno != syscall.EAGAIN && errno != syscall.EACCES {
		return folderError(f.dir, err)
	}
	return &FolderError{Kind: ErrLocked, Dir: f.dir, Err: err}
}

// begin looks again, now with the lock, and marks a new folder.
func (f *folder) begin() error {
	marked, err := f.look()
	if err != nil || marked {
		return err
	}
	return f.mark(markMaking)
}

// finish marks the store as created completely. Until then the folder may be new, and so may its parents:
// each is a name in its parent, which must be durable before anything is acknowledged.
func (f *folder) finish() error {
	if f.ready && f.format == folderFormat {
		return nil
	}
	for dir := f.dir; f.fs.PathDir(dir) != dir; {
		dir = f.fs.PathDir(dir)
		if err := f.sync(dir); err != nil && !errors.Is(err, fs.ErrPermission) { // not ours, so it was there
			return folderError(f.dir, err)
		}
	}
	if err := f.mark(markReady); err != nil {
		return err
	}
	f.ready = true
	return nil
}

// mark writes the mark.
func (f *folder) mark(state string) error {
	if err := f.replace(markFile, fmt.Appendf(nil, markFormat, folderFormat, state)); err != nil {
		return folderError(f.dir, err)
	}
	f.format = folderFormat
	return nil
}

// replace writes a file so that after a crash either the old or the new one is there, whole.
func (f *folder) replace(name string, text []byte) error {
	temp := f.file(name + ".tmp")
	if err := f.write(temp, text); err != nil {
		return err
	}
	if err := f.fs.Rename(temp, f.file(name)); err != nil {
		return err
	}
	return f.sync(f.dir)
}

// write creates a durable file.
func (f *folder) write(name string, text []byte) error {
	file, err := privately(f.fs).Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// sync makes the names in a folder durable.
func (f *folder) sync(dir string) error {
	d, err := f.fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// probe checks that there is room for opening the store for writing, and writes some of it. Opening turns the
// logs into tables; if it ran out of room half-way, what it had written would stay and use up more room with
// every attempt.
func (f *folder) probe(bytes int) error {
	if err := f.held(); err != nil {
		return err
	}
	if err := f.room(uint64(bytes)); err != nil {
		return err
	}
	name := f.file(markTemp)
	err := f.write(name, make([]byte, bytes))
	if gone := f.fs.Remove(name); err == nil {
		err = gone
	}
	return err
}

// room reports whether room is missing for the size of the logs plus bytes. A file system that cannot tell
// has room.
func (f *folder) room(bytes uint64) error {
	usage, err := f.fs.GetDiskUsage(f.dir)
	if errors.Is(err, vfs.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	names, err := f.fs.List(f.path())
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasSuffix(name, logSuffix) {
			continue
		}
		if info, err := f.fs.Stat(f.fs.PathJoin(f.path(), name)); err == nil { // gone meanwhile: it takes no room
			bytes += uint64(info.Size())
		}
	}
	if usage.AvailBytes < bytes {
		return fmt.Errorf("%d bytes are free, %d are needed: %w", usage.AvailBytes, bytes, syscall.ENOSPC)
	}
	return nil
}

// file returns the path of a file of this package.
func (f *folder) file(name string) string { return f.fs.PathJoin(f.dir, name) }

// path returns the folder of Pebble's files.
func (f *folder) path() string { return f.fs.PathJoin(f.dir, dbFolder) }
