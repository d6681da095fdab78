package kubens

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// known is the namespaces that a cluster of Kubernetes has had and whose jobs have not been removed since.
// It is kept in a file, for those that are deleted while this node does not run. Only one goroutine uses
// it.
type known struct {
	file    string // empty: it is not kept
	log     *slog.Logger
	names   map[string]bool
	cluster string
	unsaved bool
	failed  error // why it could not be saved the last time
}

// knownFile is the content of the file.
type knownFile struct {
	// Cluster tells clusters of Kubernetes apart: the file may be moved to another one with its volume.
	Cluster    string   `json:"cluster"`
	Namespaces []string `json:"namespaces"`
}

// begin takes up what the file says of this cluster, and returns the names that it has besides those that
// there are.
func (k *known) begin(cluster string, present []string) (absent []string) {
	k.names, k.cluster, k.unsaved = map[string]bool{}, cluster, true
	for _, name := range present {
		k.names[name] = true
	}
	before, err := k.read()
	switch {
	case errors.Is(err, fs.ErrNotExist) || k.file == "":
	case err != nil:
		k.log.Warn("it is not known which namespaces Kubernetes had before: jobs of those that were deleted meanwhile stay",
			"file", k.file, "reason", err)
	case before.Cluster != cluster:
		k.log.Warn("another cluster of Kubernetes than before: what is known of that one's namespaces is forgotten",
			"file", k.file)
	default:
		for _, name := range before.Namespaces {
			if !k.names[name] {
				k.names[name] = true
				absent = append(absent, name)
			}
		}
	}
	k.save()
	return absent
}

// set notes that a namespace is there, or that nothing is left of it.
func (k *known) set(name string, there bool) {
	if k.names == nil {
		return // it has not begun: it is not known which cluster this is
	}
	if k.names[name] != there {
		k.unsaved = true
	}
	if there {
		k.names[name] = true
	} else {
		delete(k.names, name)
	}
	k.save()
}

func (k *known) read() (content knownFile, err error) {
	text, err := os.ReadFile(k.file)
	if err != nil {
		return content, err
	}
	err = json.Unmarshal(text, &content)
	if err == nil && content.Cluster == "" {
		err = errors.New("it names no cluster")
	}
	return content, err
}

// save writes the file if anything has changed. If that fails the next call tries again: until then jobs
// may stay, which is no reason to keep jobs of other namespaces.
func (k *known) save() {
	if !k.unsaved || k.file == "" {
		return
	}
	err := k.write()
	if err != nil && k.failed == nil {
		k.log.Warn("the namespaces of Kubernetes cannot be kept: jobs of those that are deleted while this node does not run stay",
			"file", k.file, "reason", err)
	}
	k.unsaved, k.failed = err != nil, err
}

// write replaces the file in one step that lasts.
func (k *known) write() error {
	text, err := json.Marshal(knownFile{k.cluster, slices.Sorted(maps.Keys(k.names))})
	if err != nil {
		return err
	}
	folder := filepath.Dir(k.file)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	next := k.file + ".next"
	if err := writeThrough(next, text); err != nil {
		return errors.Join(err, os.RemoveAll(next))
	}
	if err := os.Rename(next, k.file); err != nil {
		return errors.Join(err, os.Remove(next))
	}
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// writeThrough writes a file to the disk.
func writeThrough(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(append(text, '\n')); err != nil {
		return errors.Join(fmt.Errorf("write: %w", err), f.Close())
	}
	return errors.Join(f.Sync(), f.Close())
}
