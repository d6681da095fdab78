package pebble_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/store/pebble"
	"github.com/carillonhq/carillon/server/store/storetest"
)

func TestAStoreIsItsUsersAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	var warned storetest.Warnings
	s, err := pebble.Open(dir, pebble.Options{Log: &warned})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if len(warned) > 0 {
		t.Errorf("warned of %q", warned)
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
	var told storetest.Warnings
	s, err := pebble.Open(dir, pebble.Options{Log: &told})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if len(told) != 1 || !strings.Contains(told[0], "0750") {
		t.Errorf("told: %q", told)
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
