package pebble

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	pebbledb "github.com/cockroachdb/pebble/v2"
)

// kinds are all kinds of errors of a folder.
var kinds = []error{ErrLocked, ErrNotFolder, ErrNotMade, ErrForeign, ErrNewer, ErrOlder,
	ErrNetworkFolder, ErrPermission, ErrReadOnly, ErrDamaged, ErrReplaced, ErrDiskFull, ErrIO}

func TestEachFolderErrorHasAdvice(t *testing.T) {
	for _, kind := range kinds {
		for _, closed := range []bool{false, true} {
			err := &FolderError{Kind: kind, Dir: "/data", Err: errors.New("cause"), Closed: closed}
			if text := err.Error(); advice[kind] == "" || !strings.Contains(text, "/data") ||
				!strings.Contains(text, "(cause): ") {
				t.Errorf("%v: %q", kind, text)
			}
			// A store that is not open tries nothing again by itself.
			if text := err.Error(); closed && strings.Contains(text, "by itself") {
				t.Errorf("%v, closed: %q", kind, text)
			}
		}
	}
	if len(advice) != len(kinds) {
		t.Errorf("there is advice for %d kinds, and there are %d", len(advice), len(kinds))
	}
}

func TestSystemErrorsHaveAKind(t *testing.T) {
	for _, c := range []struct{ err, want error }{
		{syscall.ENOSPC, ErrDiskFull},
		{&fs.PathError{Op: "write", Err: syscall.EDQUOT}, ErrDiskFull},
		{syscall.EROFS, ErrReadOnly},
		{syscall.EACCES, ErrPermission},
		{syscall.ENOTDIR, ErrNotFolder},
		{syscall.ENAMETOOLONG, ErrNotFolder},
		{fs.ErrNotExist, ErrDamaged},
		{fmt.Errorf("a key: %w", errKey), ErrDamaged},
		{pebbledb.ErrDBDoesNotExist, ErrDamaged},
		{syscall.EIO, ErrIO},
		{errors.New("anything else"), ErrIO},
	} {
		err := folderError("/data", c.err)
		if !errors.Is(err, c.want) || !errors.Is(err, c.err) {
			t.Errorf("%v becomes %v, want %v", c.err, err, c.want)
		}
		if again := folderError("/other", fmt.Errorf("open: %w", err)); !strings.Contains(again.Error(), "/data") {
			t.Errorf("%v got a second kind: %v", err, again)
		}
		if made := notMade("/data", c.err); errors.Is(c.want, ErrDamaged) && !errors.Is(made, ErrNotMade) ||
			errors.Is(made, ErrDamaged) {
			t.Errorf("a folder that cannot be made because of %v: %v", c.err, made)
		}
	}
	if folderError("/data", nil) != nil {
		t.Error("nothing is an error")
	}
}

func TestAnErrorOfAnOpenIsMarkedSo(t *testing.T) {
	running := folderError("/data", syscall.ENOSPC)
	opened := notOpened(running)
	if !strings.Contains(opened.Error(), "start carillon again") ||
		strings.Contains(running.Error(), "start carillon again") {
		t.Errorf("%q became %q", running, opened)
	}
	if other := errors.New("other"); !errors.Is(notOpened(other), other) ||
		notOpened(other).Error() != "other" {
		t.Error("an error without a folder has changed")
	}
}
