package keyset

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/carillonhq/carillon/server/store/codec"
)

// Keys are the keys of a file at one time.
type Keys struct {
	primary uint32
	ids     []uint32 // of keys that are enabled, the primary one too
	aead    tink.AEAD
	list    []Key
}

// Key is what may be shown of a key.
type Key struct {
	ID      uint32
	Type    string // such as XChaCha20Poly1305
	Enabled bool
	Primary bool // what is written is encrypted with it
}

// List returns all keys in the order of the file.
func (k *Keys) List() []Key { return slices.Clone(k.list) }

// Primary returns the id of the key that encrypts.
func (k *Keys) Primary() uint32 { return k.primary }

// Has reports whether there is an enabled key of an id.
func (k *Keys) Has(id uint32) bool { return slices.Contains(k.ids, id) }

// Encrypt encrypts with the primary key.
func (k *Keys) Encrypt(plain, bound []byte) ([]byte, error) { return k.aead.Encrypt(plain, bound) }

// Decrypt decrypts with the key that the text names.
func (k *Keys) Decrypt(sealed, bound []byte) ([]byte, error) {
	if id := codec.SealedBy(sealed); !k.Has(id) {
		return nil, fmt.Errorf("there is no key %08x", id)
	}
	return k.aead.Decrypt(sealed, bound)
}

// Set is the keys in force, which may be replaced at any time. It is safe for concurrent use.
type Set struct{ keys atomic.Pointer[Keys] }

// NewSet returns a set with keys in force.
func NewSet(k *Keys) *Set {
	s := &Set{}
	s.Apply(k)
	return s
}

// None returns a set without keys. It encrypts nothing; of what is encrypted it tells which key is missing.
func None() *Set { return NewSet(&Keys{aead: noAEAD{}}) }

// noAEAD is that of no keys.
type noAEAD struct{}

var errNoKeys = errors.New("there are no keys of encryption")

// Encrypt implements [tink.AEAD].
func (noAEAD) Encrypt(_, _ []byte) ([]byte, error) { return nil, errNoKeys }

// Decrypt implements [tink.AEAD].
func (noAEAD) Decrypt(_, _ []byte) ([]byte, error) { return nil, errNoKeys }

// Apply puts keys in force, in place of those before.
func (s *Set) Apply(k *Keys) { s.keys.Store(k) }

// Keys returns the keys in force.
func (s *Set) Keys() *Keys { return s.keys.Load() }

// Encrypt implements [codec.Cipher].
func (s *Set) Encrypt(plain, bound []byte) ([]byte, error) {
	return s.keys.Load().Encrypt(plain, bound)
}

// Decrypt implements [codec.Cipher].
func (s *Set) Decrypt(sealed, bound []byte) ([]byte, error) {
	return s.keys.Load().Decrypt(sealed, bound)
}

// Has reports whether there is an enabled key of an id.
func (s *Set) Has(id uint32) bool { return s.keys.Load().Has(id) }
