package keyset

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
)

// MaxKeys is the most keys that commands put into a file.
const MaxKeys = 100

// Create makes a file with one new key, which is the primary one. There must be no file.
func (f File) Create() (*Keys, error) {
	if _, err := os.Lstat(f.Path); err == nil {
		return nil, fmt.Errorf("%s is there already: what was encrypted with its keys would be lost with them", f.Path)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	m := keyset.NewManager()
	id, err := m.Add(aead.XChaCha20Poly1305KeyTemplate())
	if err == nil {
		err = m.SetPrimary(id)
	}
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return f.write(m)
}

// Add adds a new key, which decrypts and does not encrypt yet.
func (f File) Add() (*Keys, uint32, error) {
	var added uint32
	k, err := f.change(func(m *keyset.Manager, has *Keys) (err error) {
		if len(has.list) >= MaxKeys {
			return fmt.Errorf("it has %d keys: remove some that nothing needs", len(has.list))
		}
		added, err = m.Add(aead.XChaCha20Poly1305KeyTemplate())
		return err
	})
	return k, added, err
}

// Promote makes a key the primary one: from then on it encrypts.
func (f File) Promote(id uint32) (*Keys, error) {
	return f.change(func(m *keyset.Manager, has *Keys) error {
		switch {
		case !has.Has(id):
			return fmt.Errorf("it has no enabled key %08x", id)
		case has.primary == id:
			return fmt.Errorf("the key %08x is the primary one already", id)
		}
		return m.SetPrimary(id)
	})
}

// Remove removes a key, which must not be the primary one. Nothing can decrypt what was encrypted with it.
func (f File) Remove(id uint32) (*Keys, error) {
	return f.change(func(m *keyset.Manager, has *Keys) error {
		if has.primary == id {
			return fmt.Errorf("the key %08x is the primary one: promote another one before", id)
		}
		for _, k := range has.list {
			if k.ID == id {
				return m.Delete(id)
			}
		}
		return fmt.Errorf("it has no key %08x", id)
	})
}

// change rewrites the file.
func (f File) change(by func(*keyset.Manager, *Keys) error) (*Keys, error) {
	h, err := f.handle()
	if err != nil {
		return nil, err
	}
	has, err := keysOf(h)
	if err == nil {
		m := keyset.NewManagerFromHandle(h)
		if err = by(m, has); err == nil {
			return f.write(m)
		}
	}
	return nil, fmt.Errorf("%s: %w", f.Path, err)
}

// write makes the keys durable as the file, in one step.
func (f File) write(m *keyset.Manager) (k *Keys, err error) {
	h, err := m.Handle()
	if err != nil {
		return nil, err
	}
	if k, err = keysOf(h); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	var text bytes.Buffer
	out := keyset.NewJSONWriter(&text)
	if f.KEK == "" {
		err = insecurecleartextkeyset.Write(h, out)
	} else {
		kek, failed := kekOf(f.KEK)
		if failed != nil {
			return nil, failed
		}
		err = h.Write(out, kek)
	}
	if err != nil {
		return nil, err
	}
	text.WriteByte('\n')
	return k, replace(f.Path, text.Bytes())
}

// replace writes a file, durably and in one step. A new one is for its owner alone to read; one that is there
// keeps its mode and, as far as that is allowed, its owner and its group, so that a node can go on to read
// it. A symbolic link stays one: what it leads to is replaced.
func replace(path string, text []byte) error {
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		target, err = path, nil
	}
	if err != nil {
		return err
	}
	was, err := os.Stat(target)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(target), ".keys-*") // mode 0600
	if err != nil {
		return err
	}
	if was != nil {
		err = likeBefore(file, was)
	}
	if err == nil {
		_, err = file.Write(text)
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), target)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	dir, err := os.Open(filepath.Dir(target))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// likeBefore gives a file the owner, the group and the mode of another. If it cannot have its group, the one
// that it has instead must not read it. Without its owner it is of no use: a node that runs as that user
// could not read it any more.
func likeBefore(file *os.File, was fs.FileInfo) error {
	mode := was.Mode().Perm()
	owner, group := takeOwner(file, was)
	if !owner {
		return fmt.Errorf("%s belongs to another user, who could not read it any more: change it as that user, or as root",
			filepath.Join(filepath.Dir(file.Name()), was.Name()))
	}
	if !group {
		const ofGroup = 0o070
		mode &^= ofGroup
	}
	return file.Chmod(mode)
}
