package pebble_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/pebble"
)

// made makes a store of a few tables in a folder of its own and closes it.
func made(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	s, err := pebble.Open(dir, pebble.Options{Partitions: 4, MemTableBytes: 32 << 10})
	if err != nil {
		t.Fatal(err)
	}
	sh := own(t, s, 1)[0]
	for n := range uint64(100) {
		if err := sh.Apply(t.Context(), batchOf(n+1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func write1(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// files are those of the store whose name matches.
func files(t *testing.T, dir, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "db", pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("no file %s: %v", pattern, err)
	}
	return names
}

// spoil overwrites the middle of a file.
func spoil(t *testing.T, name string) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(b) / 4; i < len(b)*3/4; i++ {
		b[i] ^= 0x5a
	}
	write1(t, name, string(b))
}

// TestOpenErrors opens what cannot be opened: each error has its kind, names the folder, and says what to do.
func TestOpenErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		want error
		dir  func(t *testing.T) string
	}{
		{"a file", pebble.ErrNotFolder, func(t *testing.T) string {
			name := filepath.Join(t.TempDir(), "file")
			write1(t, name, "text")
			return name
		}},
		{"below a file", pebble.ErrNotFolder, func(t *testing.T) string {
			name := filepath.Join(t.TempDir(), "file")
			write1(t, name, "text")
			return filepath.Join(name, "store")
		}},
		{"somebody's folder", pebble.ErrForeign, func(t *testing.T) string {
			dir := t.TempDir()
			write1(t, filepath.Join(dir, "thesis.tex"), "text")
			return dir
		}},
		{"another database", pebble.ErrForeign, func(t *testing.T) string { return filepath.Join(made(t), "db") }},
		{"a newer format", pebble.ErrNewer, func(t *testing.T) string {
			dir := made(t)
			write1(t, filepath.Join(dir, "CARILLON"), "carillon store, format 4, ready\n")
			return dir
		}},
		{"a spoiled mark", pebble.ErrDamaged, func(t *testing.T) string {
			dir := made(t)
			write1(t, filepath.Join(dir, "CARILLON"), "\x00\x00\x00")
			return dir
		}},
		{"no database left", pebble.ErrDamaged, func(t *testing.T) string {
			dir := made(t)
			if err := os.RemoveAll(filepath.Join(dir, "db")); err != nil {
				t.Fatal(err)
			}
			return dir
		}},
		{"a table is missing", pebble.ErrDamaged, func(t *testing.T) string {
			dir := made(t)
			if err := os.Remove(files(t, dir, "*.sst")[0]); err != nil {
				t.Fatal(err)
			}
			return dir
		}},
		{"the manifest is missing", pebble.ErrDamaged, func(t *testing.T) string {
			dir := made(t)
			if err := os.Remove(files(t, dir, "MANIFEST-*")[0]); err != nil {
				t.Fatal(err)
			}
			return dir
		}},
		{"the manifest is spoiled", pebble.ErrDamaged, func(t *testing.T) string {
			dir := made(t)
			spoil(t, files(t, dir, "MANIFEST-*")[0])
			return dir
		}},
		{"the log is spoiled", pebble.ErrDamaged, func(t *testing.T) string {
			dir := filepath.Join(t.TempDir(), "store")
			p := startWriter(t, dir, sizes{64 << 20, 500})
			p.until(t, 2000)
			p.kill(t)
			for _, name := range files(t, dir, "*.log") {
				spoil(t, name)
			}
			return dir
		}},
		{"in use", pebble.ErrLocked, func(t *testing.T) string {
			dir := made(t)
			open(t, dir, pebble.Options{})
			return dir
		}},
		{"in use under another name", pebble.ErrLocked, func(t *testing.T) string {
			dir := made(t)
			open(t, dir, pebble.Options{})
			link := filepath.Join(t.TempDir(), "link")
			if err := os.Symlink(dir, link); err != nil {
				t.Fatal(err)
			}
			return link
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := c.dir(t)
			s, err := pebble.Open(dir, pebble.Options{})
			if err == nil {
				_ = s.Close()
				t.Fatalf("opened; want %v", c.want)
			}
			checkFolderError(t, err, c.want)
		})
	}
}

func checkFolderError(t *testing.T, err, want error) {
	t.Helper()
	f, ok := errors.AsType[*pebble.FolderError](err)
	if !ok || !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
	if f.Dir == "" || !strings.Contains(err.Error(), f.Dir) || strings.Count(err.Error(), ": ") < 2 {
		t.Errorf("%q does not name the folder, or what to do", err)
	}
}

// TestOpenRefused opens folders that the system refuses to write, which root cannot meet for real.
func TestOpenRefused(t *testing.T) {
	for errno, want := range map[syscall.Errno]error{
		syscall.EROFS: pebble.ErrReadOnly, syscall.EACCES: pebble.ErrPermission,
		syscall.EPERM: pebble.ErrPermission, syscall.ENOSPC: pebble.ErrDiskFull, syscall.EDQUOT: pebble.ErrDiskFull,
		syscall.EIO: pebble.ErrIO,
	} {
		t.Run(errno.Error(), func(t *testing.T) {
			f := &faults{at: 1, lasting: true, err: errno}
			_, err := pebble.Open("store", pebble.Options{FS: errorfs.Wrap(vfs.NewMem(), f)})
			checkFolderError(t, err, want)
		})
	}
}

// TestOpenAgain opens a store that was closed: what it was created with stays, and a mount's own folder is no
// stranger.
func TestOpenAgain(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	var meta store.Meta
	for i, p := range []int{16, 0, 32} {
		s, err := pebble.Open(dir, pebble.Options{Partitions: p})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			meta = s.Meta()
		}
		if got := s.Meta(); got.Partitions != 16 || !bytes.Equal(got.MACKey, meta.MACKey) ||
			len(got.MACKey) != 32 || got.Format != store.Format() {
			t.Errorf("open %d: %+v, want %+v", i, got, meta)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pebble.Open(dir, pebble.Options{Partitions: 70_000}); err == nil {
		t.Error("70,000 partitions were accepted")
	}
}

// TestOpenOtherFormats opens stores whose records are of another format: the one before is taken over, others
// are refused.
func TestOpenOtherFormats(t *testing.T) {
	for format, want := range map[int]error{1: nil, store.Format(): nil, store.Format() + 1: pebble.ErrNewer} {
		t.Run(strconv.Itoa(format), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			s, err := pebble.Open(dir, pebble.Options{Partitions: 1})
			if err == nil {
				err = errors.Join(pebble.SayFormat(s, format), s.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				s, err := pebble.Open(dir, pebble.Options{})
				switch {
				case want != nil:
					checkFolderError(t, err, want)
				case err != nil:
					t.Fatal(err)
				case s.Meta().Format != store.Format():
					t.Errorf("it is of format %d", s.Meta().Format)
				}
				if err == nil {
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}
