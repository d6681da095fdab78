//go:build unix

package keyset

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestAFileStaysWhatItWas: its mode, its owner and its group, and a symbolic link to it stays one.
func TestAFileStaysWhatItWas(t *testing.T) {
	f, _ := made(t, "")
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		uid, gid = 4711, 4712
		if err := os.Chown(f.Path, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(f.Path, 0o640); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.Symlink(f.Path, filepath.Join(folder, "between.json")); err != nil {
		t.Fatal(err)
	}
	link := File{Path: filepath.Join(folder, "keys.json")}
	if err := os.Symlink("between.json", link.Path); err != nil {
		t.Fatal(err)
	}
	_, id, err := link.Add()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	of, ok := info.Sys().(*syscall.Stat_t)
	if info.Mode() != 0o640 || !ok || int(of.Uid) != uid || int(of.Gid) != gid {
		t.Errorf("it has the mode %v and is of %d:%d, want 0640 and %d:%d", info.Mode(), of.Uid, of.Gid, uid, gid)
	}
	if to, err := os.Readlink(link.Path); err != nil || to != "between.json" {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	if k, err := f.Read(); err != nil || !k.Has(id) {
		t.Errorf("the key that was added is not in the file that the link leads to: %v", err)
	}
	for _, dir := range []string{folder, filepath.Dir(f.Path)} {
		if left, err := filepath.Glob(filepath.Join(dir, ".keys-*")); err != nil || len(left) > 0 {
			t.Errorf("left behind: %q, %v", left, err)
		}
	}
}
