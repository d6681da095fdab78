// Package mackey makes the keys of stores that authenticate tokens, see store.Meta.
package mackey

import (
	"bytes"
	"crypto/rand"
)

// Size is the length of a key in bytes.
const Size = 32

// New returns the key of a new store: the one that is asked for, or random bytes.
func New(asked []byte) []byte {
	if asked != nil {
		return bytes.Clone(asked)
	}
	key := make([]byte, Size)
	rand.Read(key) // never fails
	return key
}
