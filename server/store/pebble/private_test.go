package pebble_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/store/pebble"
)

func TestAStoreIsItsUsersAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := pebble.Open(dir, pebble.Options{Events: pebble.Events{Exposed: func(dir string, mode fs.FileMode) {
		t.Errorf("%s is made with mode %v", dir, mode)
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	files := 0
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !d.IsDir() {
			files++
		}
		if mode := info.Mode().Perm(); mode&0o077 != 0 {
			t.Errorf("%s has mode %v", path, mode)
		}
		return nil
	})
	if err != nil || files < 4 {
		t.Fatal(files, err)
	}
}

func TestAWideFolderIsTold(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	var told []fs.FileMode
	s, err := pebble.Open(dir, pebble.Options{Events: pebble.Events{Exposed: func(_ string,
		mode fs.FileMode) {
		told = append(told, mode)
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if len(told) != 1 || told[0] != 0o750 {
		t.Errorf("told: %v", told)
	}
}

func TestAFolderThatCannotBeMadeIsNotDamaged(t *testing.T) {
	_, err := pebble.Open("/proc/no-such-folder", pebble.Options{})
	if !errors.Is(err, pebble.ErrNotMade) || errors.Is(err, pebble.ErrDamaged) {
		t.Errorf("%v", err)
	}
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 300))
	if _, err := pebble.Open(long, pebble.Options{}); err == nil ||
		strings.Contains(err.Error(), "disk failed") {
		t.Errorf("%v", err)
	}
}

func TestAStoreThatIsNotOpenedPromisesNothing(t *testing.T) {
	for _, kind := range []error{pebble.ErrIO, pebble.ErrDiskFull, pebble.ErrDamaged} {
		err := &pebble.FolderError{Kind: kind, Dir: "d", Closed: true}
		if text := err.Error(); strings.Contains(text, "by itself") {
			t.Errorf("%s", text)
		}
	}
}
