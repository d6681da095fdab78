package payload

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/carillonhq/carillon/server/store/object/bucket"
)

// folder are objects as files of a folder that all nodes share. An object has its name only once it is
// complete and durable: it is written under another name, synced, and linked.
type folder struct {
	dir  string
	sync func(folder string) error // makes the names in a folder durable
}

func newFolder(dir string) *folder { return &folder{filepath.Clean(dir), syncFolder} }

// arriving is the folder of files that are being written. What a node that was killed has left there is
// removed by the collector.
const arriving = "arriving"

// Permissions: nobody but the user that the nodes run as.
const (
	folderMode = 0o700
	fileMode   = 0o600
)

func (f *folder) path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

// Open implements objects.
func (f *folder) Open(_ context.Context, name string) (io.ReadCloser, int64, error) {
	file, err := os.Open(f.path(name))
	if err != nil {
		return nil, 0, absent(err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
}

// absent is the error of package bucket for a file that is not there.
func absent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return bucket.ErrAbsent
	}
	return err
}

// Get implements objects.
func (f *folder) Get(_ context.Context, name string, _ bucket.Version) (bucket.Object, error) {
	data, err := os.ReadFile(f.path(name))
	return bucket.Object{Data: data}, absent(err)
}

// Create implements objects. It creates the folder, too: nothing else does, so that nothing is written to the
// disk below a folder that is not mounted.
func (f *folder) Create(_ context.Context, name string, data []byte) (bucket.Version, error) {
	if err := os.MkdirAll(filepath.Join(f.dir, arriving), folderMode); err != nil {
		return "", err
	}
	file, err := f.write(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return "", err
	}
	defer os.Remove(file)
	if err := os.MkdirAll(filepath.Dir(f.path(name)), folderMode); err != nil {
		return "", err
	}
	err = os.Link(file, f.path(name)) // a rename would replace what another node has just written
	if errors.Is(err, fs.ErrExist) {
		return "", bucket.ErrExists
	}
	if err != nil { // some folders of the network have no links
		err = os.Rename(file, f.path(name))
	}
	if err != nil {
		return "", err
	}
	return "", errors.Join(f.settleNames(filepath.Dir(f.path(name))), f.sync(filepath.Dir(f.dir)))
}

// CreateFrom implements objects.
func (f *folder) CreateFrom(ctx context.Context, name string, r io.ReadSeeker, size int64) error {
	if _, err := os.Lstat(f.path(name)); err == nil {
		return cmp.Or(f.Settle(ctx, name), bucket.ErrExists)
	}
	if _, err := os.Lstat(f.path(ownerName)); err != nil {
		return fmt.Errorf("the folder of payloads is not there: %w", err)
	}
	file, err := f.write(r, size)
	if err != nil {
		return err
	}
	defer os.Remove(file) // which fails once it has its name
	return f.link(file, name)
}

// write returns the path of a new file with size bytes of r, durably. It has no name of an object yet.
func (f *folder) write(r io.Reader, size int64) (string, error) {
	file, err := os.CreateTemp(filepath.Join(f.dir, arriving), "*")
	if err != nil {
		return "", err
	}
	n, err := io.Copy(file, r)
	if err == nil && n != size {
		err = fmt.Errorf("%d bytes came, not %d", n, size)
	}
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), nil
}

// link gives a file the name of an object, durably.
func (f *folder) link(file, name string) error {
	into := filepath.Dir(f.path(name))
	if err := os.MkdirAll(into, folderMode); err != nil {
		return err
	}
	// A rename within a folder of the network is atomic, too, and no link is needed, which some lack. The
	// object has the same bytes if another node was faster.
	if err := os.Rename(file, f.path(name)); err != nil {
		return err
	}
	return f.settleNames(into)
}

// Settle implements objects. It makes an object durable that is there: who gave it its name may not have come
// to the end of that.
func (f *folder) Settle(_ context.Context, name string) error {
	file, err := os.Open(f.path(name))
	if err != nil {
		return absent(err)
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return err
	}
	return f.settleNames(filepath.Dir(f.path(name)))
}

// settleNames makes the names in a folder, and its own up to the root, durable.
func (f *folder) settleNames(dir string) error {
	for ; ; dir = filepath.Dir(dir) {
		if err := f.sync(dir); err != nil || dir == f.dir || len(dir) <= len(f.dir) {
			return err
		}
	}
}

// syncFolder makes the names in a folder durable.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Delete implements objects, and removes folders that are empty then.
func (f *folder) Delete(_ context.Context, name string) error {
	err := os.Remove(f.path(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir := path.Dir(name)
	for dir != "." && dir != objectsFolder && os.Remove(f.path(dir)) == nil { // it fails if others are in it
		dir = path.Dir(dir)
	}
	return nil
}

// Tidy removes what nodes that were killed have left of objects that they were writing before an instant.
func (f *folder) Tidy(before time.Time) error {
	entries, err := os.ReadDir(filepath.Join(f.dir, arriving))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := f.removeOld(e, before); err != nil && !errors.Is(err, fs.ErrNotExist) { // another node was faster
			return err
		}
	}
	return nil
}

func (f *folder) removeOld(e fs.DirEntry, before time.Time) error {
	info, err := e.Info()
	if err != nil || !info.ModTime().Before(before) {
		return err
	}
	return os.Remove(filepath.Join(f.dir, arriving, e.Name()))
}

// Size implements objects.
func (f *folder) Size(_ context.Context, name string) (int64, error) {
	info, err := os.Stat(f.path(name))
	if err != nil {
		return 0, absent(err)
	}
	return info.Size(), nil
}

// Each implements objects. The order is that of the parts of the names.
func (f *folder) Each(ctx context.Context, prefix, after string, each func(bucket.Entry) error) error {
	root := f.path(strings.TrimSuffix(prefix, "/"))
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		switch {
		case at == root && errors.Is(err, fs.ErrNotExist):
			return fs.SkipAll
		case errors.Is(err, fs.ErrNotExist): // another node has removed it
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case d.IsDir():
			return nil
		}
		name, err := filepath.Rel(f.dir, at)
		if err != nil {
			return err
		}
		if name = filepath.ToSlash(name); !later(name, after) {
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return each(bucket.Entry{Name: name, Size: info.Size(), Modified: info.ModTime()})
	})
	return err
}

// later reports whether a name comes after another one, part by part.
func later(name, after string) bool {
	for after != "" {
		a, restA, _ := strings.Cut(name, "/")
		b, restB, _ := strings.Cut(after, "/")
		if a != b {
			return a > b
		}
		name, after = restA, restB
	}
	return name != ""
}
