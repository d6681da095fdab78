package daprtls

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// folder is a folder whose files change all at once: it is a symbolic link to a folder beside it, replaced by
// one to the next.
type folder struct {
	path  string
	stale string // where the link pointed before; readers may still be in there
}

// writable judges a path for a folder: nothing may be there but such a link.
func writable(path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("identity_directory_write: %w", err)
	case info.Mode()&fs.ModeSymlink == 0:
		return fmt.Errorf("identity_directory_write: %s exists already: name a path where nothing is, it becomes a symbolic link to a folder",
			path)
	}
	return nil
}

// write makes these the files of the folder. Only the owner may read them.
func (f *folder) write(content map[string][]byte) error {
	parent := filepath.Dir(f.path)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	next, err := os.MkdirTemp(parent, f.pattern())
	if err != nil {
		return err
	}
	if err := f.fill(next, content); err != nil {
		return errors.Join(err, os.RemoveAll(next))
	}
	return nil
}

// fill writes the files to the next folder and lets the link point there.
func (f *folder) fill(next string, content map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(content)) {
		if err := os.WriteFile(filepath.Join(next, name), content[name], 0o600); err != nil {
			return err
		}
	}
	before, err := os.Readlink(f.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	link := next + ".link"
	if err := os.Symlink(filepath.Base(next), link); err != nil {
		return err
	}
	if err := os.Rename(link, f.path); err != nil {
		return errors.Join(err, os.Remove(link))
	}
	f.forget()
	f.stale = before
	return nil
}

// forget removes the folder before the last, if it is one that was made here.
func (f *folder) forget() {
	prefix, _, _ := strings.Cut(f.pattern(), "*")
	if filepath.Base(f.stale) == f.stale && strings.HasPrefix(f.stale, prefix) {
		_ = os.RemoveAll(filepath.Join(filepath.Dir(f.path), f.stale)) // what stays behind is in nobody's way
	}
}

// pattern names the folders that the link points to.
func (f *folder) pattern() string { return "." + filepath.Base(f.path) + "-*" }
