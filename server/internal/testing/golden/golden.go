// Package golden has stores and a backup that released versions have written, for tests that open them
// (testdata/README.md).
package golden

import (
	"archive/tar"
	"compress/gzip"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

//go:embed testdata/*.tar.gz testdata/*.carillon
var files embed.FS

// Store unpacks the store of a format into a new folder within dir, and returns its URL.
func Store(format int, dir string) (url string, err error) {
	return open(fmt.Sprintf("testdata/format-%d.tar.gz", format), dir)
}

// Encrypted is [Store] for an encrypted store, whose keys are in the file [Keys]. There are some since
// format 6.
func Encrypted(format int, dir string) (url string, err error) {
	return open(fmt.Sprintf("testdata/encrypted-%d.tar.gz", format), dir)
}

// Keys returns the file of the keys of a golden store; "" if it is not encrypted.
func Keys(url string) string {
	file := filepath.Join(filepath.Dir(strings.TrimPrefix(url, "pebble:")), "keys", "keys.json")
	if _, err := os.Stat(file); err != nil {
		return ""
	}
	return file
}

func open(file, dir string) (url string, err error) {
	f, err := files.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return "", err
	}
	for in := tar.NewReader(z); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return "pebble:" + filepath.Join(dir, "store"), nil
		}
		if err != nil {
			return "", err
		}
		if err := unpack(filepath.Join(dir, filepath.Clean("/"+h.Name)), h, in); err != nil {
			return "", err
		}
	}
}

func unpack(path string, h *tar.Header, from io.Reader) error {
	if h.Typeflag == tar.TypeDir {
		return os.Mkdir(path, 0o700)
	}
	b, err := io.ReadAll(io.LimitReader(from, h.Size))
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o600)
}

// Backup returns the backup of a version of its format.
func Backup(version int) ([]byte, error) {
	return files.ReadFile(fmt.Sprintf("testdata/backup-%d.carillon", version))
}
