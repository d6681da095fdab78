package pebble

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"strconv"
	"strings"
)

// Names of Pebble's files that matter here.
const (
	logSuffix      = ".log"
	manifestPrefix = "MANIFEST-"
	markerPrefix   = "marker.manifest."
)

// extentOf returns the kind and number of a file by its name; kind 0 is any other file.
func extentOf(name string) extent {
	if digits, ok := strings.CutSuffix(name, logSuffix); ok {
		if n, err := strconv.ParseUint(digits, 10, 64); err == nil {
			return extent{kind: extentLog, number: n}
		}
	}
	if n, ok := manifestNumber(name); ok {
		return extent{kind: extentManifest, number: n}
	}
	return extent{}
}

func manifestNumber(name string) (number uint64, ok bool) {
	digits, ok := strings.CutPrefix(name, manifestPrefix)
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, ok && err == nil
}

// cutMarker takes the name of a marker file apart, which tells the manifest in force.
func cutMarker(name string) (generation uint64, manifest string, ok bool) {
	rest, ok := strings.CutPrefix(name, markerPrefix)
	digits, manifest, cut := strings.Cut(rest, ".")
	generation, err := strconv.ParseUint(digits, 10, 64)
	return generation, manifest, ok && cut && err == nil
}

// broken returns the error of a damaged file.
func (f *folder) broken(name, format string, args ...any) error {
	return &FolderError{Kind: ErrDamaged, Dir: f.dir,
		Err: fmt.Errorf("file %s: %s", name, fmt.Sprintf(format, args...))}
}

// loadRecovery reads the recovery point and compares the folder with it. For a folder that was written before
// there were recovery points, it makes one of what is there.
func (f *folder) loadRecovery() (recoveryPoint, error) {
	switch {
	case !f.ready:
		return recoveryPoint{}, nil // nothing in it was ever acknowledged
	case f.format < formatRecovery:
		return f.adopt()
	}
	text, err := f.read(recoveryFile)
	if errors.Is(err, fs.ErrNotExist) {
		return recoveryPoint{}, f.broken(recoveryFile, "missing")
	}
	if err != nil {
		return recoveryPoint{}, folderError(f.dir, err)
	}
	p, ok := parseRecovery(text)
	if !ok {
		return p, f.broken(recoveryFile, "no part of it is whole")
	}
	err = f.verify(&p)
	return p, folderError(f.dir, err)
}

// verify refuses a folder that lacks something that the recovery point lists.
func (f *folder) verify(p *recoveryPoint) error {
	first, err := f.verifyManifest(p)
	if err != nil {
		return err
	}
	for _, e := range p.files {
		if e.kind == extentLog && e.number >= first && e.length > 0 {
			if err := f.verifyLog(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// inForce finds the manifest in force.
func (f *folder) inForce() (generation uint64, name string, err error) {
	names, err := f.fs.List(f.path())
	if err != nil {
		return 0, "", err
	}
	for _, n := range names {
		if g, manifest, ok := cutMarker(n); ok && (name == "" || g > generation) {
			generation, name = g, manifest
		}
	}
	return generation, name, nil
}

// verifyManifest compares the manifest in force with the point; it returns the first log that it needs.
func (f *folder) verifyManifest(p *recoveryPoint) (first uint64, err error) {
	generation, name, err := f.inForce()
	if err != nil {
		return 0, err
	}
	number, ok := manifestNumber(name)
	if !ok || generation < p.marker {
		return 0, f.broken(fmt.Sprintf("%s%06d.*", markerPrefix, p.marker), "missing")
	}
	want := p.find(extentManifest, number)
	if want == nil {
		return 0, f.broken(name, "it is not one of those that were in force")
	}
	text, err := f.readDB(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, f.broken(name, "missing")
	}
	if err != nil {
		return 0, err
	}
	if int64(len(text)) < want.length {
		return 0, f.broken(name, "%d of %d bytes are there", len(text), want.length)
	}
	if crc32.Checksum(text[:want.length], castagnoli) != want.sum {
		return 0, f.broken(name, "its checksum is wrong")
	}
	return firstLogOf(text)
}

// firstLogOf returns the first log that a manifest needs.
func firstLogOf(manifest []byte) (first uint64, err error) {
	err = newLogReader(bytes.NewReader(manifest), 0).each(func(record []byte) error {
		if n := firstLog(record); n != 0 {
			first = n
		}
		return nil
	})
	return first, err
}

// verifyLog reads a log as far as it must be valid.
func (f *folder) verifyLog(e extent) error {
	name := fmt.Sprintf("%06d%s", e.number, logSuffix)
	file, err := f.fs.Open(f.fs.PathJoin(f.path(), name))
	if errors.Is(err, fs.ErrNotExist) {
		return f.broken(name, "missing, and with it what was acknowledged last")
	}
	if err != nil {
		return err
	}
	defer file.Close()
	r := newLogReader(file, e.number)
	for ok := true; ok && r.valid() < e.length; {
		if _, ok, err = r.next(); err != nil {
			return err
		}
	}
	if r.valid() < e.length {
		return f.broken(name, "it can be read up to byte %d; what was acknowledged reaches to byte %d",
			r.valid(), e.length)
	}
	return nil
}

// adopt returns a recovery point for a folder that has none: what is there.
func (f *folder) adopt() (p recoveryPoint, err error) {
	generation, name, err := f.inForce()
	if err != nil {
		return p, folderError(f.dir, err)
	}
	number, ok := manifestNumber(name)
	if !ok {
		return p, f.broken(markerPrefix+"*", "missing")
	}
	text, err := f.readDB(name)
	if err != nil {
		return p, folderError(f.dir, err)
	}
	p.marker = generation
	p.files = []extent{{kind: extentManifest, number: number, length: int64(len(text)),
		sum: crc32.Checksum(text, castagnoli)}}
	return p, nil
}

// read reads a file of the folder.
func (f *folder) read(name string) ([]byte, error) { return f.readAll(f.file(name)) }

// readDB reads one of Pebble's files.
func (f *folder) readDB(name string) ([]byte, error) { return f.readAll(f.fs.PathJoin(f.path(), name)) }

func (f *folder) readAll(path string) ([]byte, error) {
	file, err := f.fs.Open(path)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(file)
	return text, errors.Join(err, file.Close())
}
