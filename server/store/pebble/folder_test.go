package pebble

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// folderWith is a folder in memory with files of the given contents.
func folderWith(t *testing.T, files map[string]string) *folder {
	t.Helper()
	f := &folder{fs: vfs.NewMem(), dir: "store", held: func() error { return nil }}
	if err := f.fs.MkdirAll(f.path(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := f.fs.RemoveAll(f.path()); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if name == dbFolder {
			if err := f.fs.MkdirAll(f.path(), 0o755); err != nil {
				t.Fatal(err)
			}
		} else if err := f.write(f.file(name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// TestAFolderIsKnownByItsMark: what is not marked, or not as this program does it, is refused.
func TestAFolderIsKnownByItsMark(t *testing.T) {
	for name, c := range map[string]struct {
		files         map[string]string
		marked, ready bool
		want          error
	}{
		"empty": {nil, false, false, nil},
		"begun": {map[string]string{markTemp: "", lockFile: ""}, false, false, nil},
		"half made": {map[string]string{markFile: "carillon store, format 2, making\n", "x": ""},
			true, false, nil},
		"made":  {map[string]string{markFile: "carillon store, format 2, ready\n"}, true, true, nil},
		"older": {map[string]string{markFile: "carillon store, format 1, ready\n"}, true, true, nil},
		"newer": {map[string]string{markFile: "carillon store, format 99, dancing\n"}, true,
			false, ErrNewer},
		"too old": {map[string]string{markFile: "carillon store, format 0, ready\n"}, true,
			false, ErrDamaged},
		"another state": {map[string]string{markFile: "carillon store, format 2, dancing\n"}, true,
			false, ErrDamaged},
		"cut off":        {map[string]string{markFile: "carillon store, format 2, rea"}, true, false, ErrDamaged},
		"something else": {map[string]string{"letters.txt": ""}, false, false, ErrForeign},
		"without a mark": {map[string]string{recoveryFile: "", dbFolder: ""}, false, false, ErrDamaged},
		"a disk's own":   {map[string]string{"lost+found": ""}, false, false, nil},
		"more than a line": {map[string]string{markFile: "carillon store, format 2, ready\nor so"}, true,
			false, ErrDamaged},
	} {
		f := folderWith(t, c.files)
		marked, err := f.look()
		if marked != c.marked || f.ready != c.ready || !errors.Is(err, c.want) || (err != nil) != (c.want != nil) {
			t.Errorf("%s: marked %v, ready %v, %v", name, marked, f.ready, err)
		}
	}
	if marked, err := (&folder{fs: vfs.NewMem(), dir: "none"}).look(); marked || err != nil {
		t.Errorf("a folder that is not there: %v, %v", marked, err)
	}
}

// TestAFileIsReplacedWhole: after a crash the old or the new one is there.
func TestAFileIsReplacedWhole(t *testing.T) {
	mem := vfs.NewCrashableMem()
	f := &folder{fs: mem, dir: "store"}
	if err := errors.Join(mem.MkdirAll("store", 0o755), f.sync("store"), f.sync("/")); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "two, and longer", ""} {
		if err := f.replace(markFile, []byte(text)); err != nil {
			t.Fatal(err)
		}
		crashed := &folder{fs: mem.CrashClone(vfs.CrashCloneCfg{}), dir: "store"}
		if got, err := crashed.read(markFile); err != nil || string(got) != text {
			t.Errorf("after a crash it says %q, %v; want %q", got, err, text)
		}
	}
}

// measured is a file system with some room.
type measured struct {
	vfs.FS
	free uint64
	err  error
}

func (m measured) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: m.free}, m.err
}

// TestRoomIsForTheLogsToo: opening turns them into tables.
func TestRoomIsForTheLogsToo(t *testing.T) {
	for _, c := range []struct {
		free uint64
		err  error
		want error
	}{
		{100 + 60, nil, nil}, {100 + 59, nil, syscall.ENOSPC}, {0, vfs.ErrUnsupported, nil},
		{1 << 40, io.ErrNoProgress, io.ErrNoProgress},
	} {
		f := folderWith(t, map[string]string{dbFolder: ""})
		for name, bytes := range map[string]int{"000004.log": 50, "000005.log": 10, "000006.sst": 1000} {
			if err := f.write(f.fs.PathJoin(f.path(), name), make([]byte, bytes)); err != nil {
				t.Fatal(err)
			}
		}
		f.fs = measured{f.fs, c.free, c.err}
		if err := f.room(100); !errors.Is(err, c.want) || (err != nil) != (c.want != nil) {
			t.Errorf("with %d bytes free: %v, want %v", c.free, err, c.want)
		}
	}
}

func TestALockedFolderIsToldFromAFaultyOne(t *testing.T) {
	f := &folder{dir: "store"}
	for _, c := range []struct{ err, want error }{
		{syscall.EAGAIN, ErrLocked},
		{syscall.EACCES, ErrLocked},
		{errors.New("lock held by current process"), ErrLocked},
		{syscall.ENOLCK, ErrIO},
		{fmt.Errorf("open: %w", &fs.PathError{Op: "open", Err: syscall.EACCES}), ErrPermission},
	} {
		if err := f.notLocked(c.err); !errors.Is(err, c.want) {
			t.Errorf("%v becomes %v, want %v", c.err, err, c.want)
		}
	}
}
