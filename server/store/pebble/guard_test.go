package pebble

import (
	"errors"
	"io"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// TestAfterAFailureTheFolderStaysAsItIs: whatever Pebble does then succeeds, and changes nothing.
func TestAfterAFailureTheFolderStaysAsItIs(t *testing.T) {
	for name, fail := range map[string]func(g *guard, f vfs.File) error{
		"write": func(_ *guard, f vfs.File) error { _, err := f.Write([]byte("lost")); return err },
		"sync":  func(_ *guard, f vfs.File) error { return f.Sync() },
		"create": func(g *guard, _ vfs.File) error {
			_, err := g.Create("another", vfs.WriteCategoryUnspecified)
			return err
		},
		"rename": func(g *guard, _ vfs.File) error { return g.Rename("kept", "moved") },
		"mkdir":  func(g *guard, _ vfs.File) error { return g.MkdirAll("folder", 0o755) },
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			broken := errorfs.Toggle{Injector: errorfs.ErrInjected}
			g := newGuard(&folder{fs: errorfs.Wrap(mem, &broken)})
			f, err := g.Create("kept", vfs.WriteCategoryUnspecified)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Write([]byte("right")); err != nil || g.Err() != nil || g.void() {
				t.Fatalf("before a failure: %v, %v", err, g.Err())
			}
			broken.On()
			if err := fail(g, f); err != nil {
				t.Errorf("Pebble is told of it: %v", err)
			}
			broken.Off()
			if !errors.Is(g.Err(), errorfs.ErrInjected) || !g.void() {
				t.Fatalf("the guard has %v", g.Err())
			}
			if _, err := f.Write([]byte(" and more")); err != nil {
				t.Error(err)
			}
			if err := errors.Join(f.Sync(), g.Rename("kept", "moved"), g.Remove("kept"), g.RemoveAll("kept"),
				f.Close()); err != nil {
				t.Error(err)
			}
			after, err := g.Create("after", vfs.WriteCategoryUnspecified)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(after.Sync(), after.Close()); err != nil {
				t.Error(err)
			}
			if names, err := mem.List("/"); err != nil || len(names) != 1 || names[0] != "kept" {
				t.Errorf("the folder has %v, %v", names, err)
			}
			file, err := mem.Open("kept")
			if err != nil {
				t.Fatal(err)
			}
			if text, err := io.ReadAll(file); err != nil || string(text) != "right" {
				t.Errorf("the file says %q, %v", text, err)
			}
		})
	}
}

func TestTheFirstFailureIsTheReason(t *testing.T) {
	g := newGuard(&folder{fs: vfs.NewMem()})
	g.fail(syscall.ENOSPC)
	g.fail(syscall.EIO)
	if err := g.change(func() error { return syscall.EROFS }); err != nil ||
		!errors.Is(g.Err(), syscall.ENOSPC) {
		t.Errorf("%v, the reason is %v", err, g.Err())
	}
}
