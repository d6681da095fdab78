package pebble

import (
	"errors"
	"io/fs"
	"syscall"

	pebbledb "github.com/cockroachdb/pebble/v2"
)

// What can be wrong with a folder, for errors.Is on the error of Open; the last four also end an Apply.
var (
	ErrLocked        = errors.New("another process uses the folder")
	ErrNotFolder     = errors.New("not a folder")
	ErrNotMade       = errors.New("the folder cannot be made")
	ErrForeign       = errors.New("the folder holds something else")
	ErrNewer         = errors.New("the store is of a newer version")
	ErrOlder         = errors.New("the store is of an older version, which this one cannot bring up to date")
	ErrNetworkFolder = errors.New("the folder is on a network file system")
	ErrPermission    = errors.New("no permission")
	ErrReadOnly      = errors.New("the file system is read-only")
	ErrDamaged       = errors.New("the store is damaged")
	ErrReplaced      = errors.New("the folder was replaced while it was in use")
	ErrDiskFull      = errors.New("the disk is full")
	ErrIO            = errors.New("the disk failed")
)

// advice is what a user can do.
var advice = map[error]string{
	ErrLocked:        "stop the other carillon, or give this one a folder of its own",
	ErrNotFolder:     "give the path of a folder",
	ErrNotMade:       "give a path at which this user can make one",
	ErrForeign:       "give an empty folder, or one that carillon made",
	ErrNewer:         "run the carillon that wrote it, or a later one",
	ErrOlder:         "run the carillon that wrote it",
	ErrNetworkFolder: "use a local disk, or one of the networked stores: file locks and fsync cannot be relied on there",
	ErrPermission:    "give the user that runs carillon the right to write there",
	ErrReadOnly:      "mount it for writing",
	ErrDamaged:       "restore a backup; do not delete single files",
	ErrReplaced:      "stop this carillon: what it acknowledges would go to files that are no longer there",
	ErrDiskFull:      "make room; carillon goes on by itself",
	ErrIO:            "look at the system's log; carillon tries again by itself",
}

// closedAdvice is what a user can do if the store was not opened, where that differs.
var closedAdvice = map[error]string{
	ErrReplaced: "start carillon again",
	ErrDiskFull: "make room, and start carillon again",
	ErrIO:       "look at the system's log, and start carillon again when the disk is well",
}

// FolderError reports what is wrong with a store's folder and what a user can do about it.
type FolderError struct {
	Kind error // one of the errors of this package
	Dir  string
	Err  error // the cause; nil if there is none
	// Closed: the store was not opened, so nothing is tried again.
	Closed bool
}

// Error returns a sentence that a user can act on.
func (e *FolderError) Error() string {
	s := "store folder " + e.Dir + ": " + e.Kind.Error()
	if e.Err != nil {
		s += " (" + e.Err.Error() + ")"
	}
	a := advice[e.Kind]
	if b, ok := closedAdvice[e.Kind]; ok && e.Closed {
		a = b
	}
	if a != "" {
		s += ": " + a
	}
	return s
}

// Unwrap returns the kind and the cause.
func (e *FolderError) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// folderError gives err its kind; nil and errors that have one stay as they are.
func folderError(dir string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*FolderError](err); ok {
		return err
	}
	return &FolderError{Kind: kindOf(err), Dir: dir, Err: err}
}

// notOpened marks the error of an open.
func notOpened(err error) error {
	f, ok := errors.AsType[*FolderError](err)
	if !ok {
		return err
	}
	closed := *f
	closed.Closed = true
	return &closed
}

// notMade returns why a folder could not be created.
func notMade(dir string, err error) error {
	kind := kindOf(err)
	if errors.Is(kind, ErrDamaged) { // there is nothing yet that could be damaged
		kind = ErrNotMade
	}
	return &FolderError{Kind: kind, Dir: dir, Err: err}
}

// systemError reports whether the operating system, rather than a file's contents, is the cause.
func systemError(err error) bool {
	_, errno := errors.AsType[syscall.Errno](err)
	return errno || errors.Is(err, fs.ErrPermission)
}

// kindOf returns what a system error means for the store.
func kindOf(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return ErrDiskFull
	case errors.Is(err, syscall.EROFS):
		return ErrReadOnly
	case errors.Is(err, fs.ErrPermission):
		return ErrPermission
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err,
		syscall.ELOOP), errors.Is(err, syscall.EINVAL):
		return ErrNotFolder
	case pebbledb.IsCorruptionError(err), errors.Is(err, fs.ErrNotExist), errors.Is(err, errKey),
		errors.Is(err, pebbledb.ErrDBDoesNotExist), errors.Is(err, pebbledb.ErrDBNotPristine):
		return ErrDamaged
	}
	return ErrIO
}
