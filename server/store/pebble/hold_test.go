package pebble_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/store/pebble"
)

// Whoever deletes the lock files of a running node does not make room for another one.
func TestLockFilesAreDeleted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	p := startWriter(t, dir, sizes{1 << 20, 5})
	p.until(t, 100)
	for _, name := range []string{"LOCK", filepath.Join("db", "LOCK")} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := pebble.Open(dir, pebble.Options{})
	if err == nil {
		err = errors.Join(errors.New("two processes have it open"), s.Close())
	}
	if !errors.Is(err, pebble.ErrLocked) {
		t.Fatalf("a second open: %v", err)
	}
	p.until(t, p.acked+100)
	checkAll(t, dir, p.end(t))
}

// A folder that is moved away, and another one in its place, end the acknowledgements of the node that had
// it.
func TestFolderIsReplaced(t *testing.T) {
	for _, another := range []bool{false, true} {
		t.Run(fmt.Sprint("another=", another), func(t *testing.T) {
			base := t.TempDir()
			dir, moved := filepath.Join(base, "store"), filepath.Join(base, "moved")
			p := startWriter(t, dir, sizes{1 << 20, 5})
			p.until(t, 100)
			if err := os.Rename(dir, moved); err != nil {
				t.Fatal(err)
			}
			if another {
				s, err := pebble.Open(dir, pebble.Options{Partitions: writerPartitions})
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				}()
			}
			p.wait()
			if !strings.Contains(p.said, pebble.ErrReplaced.Error()) {
				t.Errorf("the node that had the folder ended with %q", p.said)
			}
			checkAll(t, moved, p.acked)
		})
	}
}

// checkAll opens a folder and looks for everything that was acknowledged.
func checkAll(t *testing.T, dir string, acked int) {
	t.Helper()
	d := &damager{t: t, dir: dir, acked: acked, batch: 5, r: rand.New(rand.NewPCG(1, 1))}
	if got, err := d.start(dir); got != "right" {
		t.Errorf("%s: %v", got, err)
	}
}
