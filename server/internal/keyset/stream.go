package keyset

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/tink-crypto/tink-go/v2/streamingaead/subtle"

	"github.com/carillonhq/carillon/server/store/codec"
)

// A stream has a key of its own, which is encrypted with the primary key and bound to what the stream is
// bound to. What is written is a head of a fixed size,
//
//	length of the encrypted key, 2 bytes, big endian; the encrypted key; zeros up to streamHead
//
// and Tink's AES-GCM-HKDF in segments: they are encrypted one by one, so that a reader gets no byte that was
// changed or moved, notices an end that was cut off, and needs memory for one of them.
const (
	streamHead    = 256
	streamKey     = 32
	streamSegment = 64 << 10
	streamTag     = subtle.AESGCMHKDFTagSizeInBytes
	streamSalt    = 1 + streamKey + subtle.AESGCMHKDFNoncePrefixSizeInBytes // in the first segment
)

// StreamSize returns how many bytes a stream of n bytes is when it is encrypted: more, and the more the
// larger n is. It is the same for all keys.
func StreamSize(n int64) int64 {
	const inFirst, inOthers = streamSegment - streamTag - streamSalt, streamSegment - streamTag
	segments := int64(1)
	if n > inFirst {
		segments += (n - inFirst + inOthers - 1) / inOthers
	}
	return streamHead + streamSalt + n + segments*streamTag
}

// EncryptStream returns what encrypts into w until it is closed, which does not close w.
func (s *Set) EncryptStream(w io.Writer, bound []byte) (io.WriteCloser, error) {
	key := make([]byte, streamKey)
	rand.Read(key)
	sealed, err := s.Encrypt(key, bound)
	if err == nil && len(sealed) > streamHead-2 {
		err = fmt.Errorf("an encrypted key has %d bytes", len(sealed))
	}
	if err != nil {
		return nil, err
	}
	head := make([]byte, streamHead)
	binary.BigEndian.PutUint16(head, uint16(len(sealed)))
	copy(head[2:], sealed)
	if _, err := w.Write(head); err != nil {
		return nil, err
	}
	segments, err := segmentsOf(key)
	if err != nil {
		return nil, err
	}
	return segments.NewEncryptingWriter(w, bound)
}

// errHead is the error of a stream whose head is none.
var errHead = errors.New("it does not begin as an encrypted stream does")

// DecryptStream returns what r had before it was encrypted. The error names the key if that is missing, or
// does not fit; there is no other error of a stream that is whole. An error of r itself stays what it is.
func (s *Set) DecryptStream(r io.Reader, bound []byte) (io.Reader, error) {
	head := make([]byte, streamHead)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(head))
	if n > streamHead-2 {
		return nil, errHead
	}
	sealed, rest := head[2:2+n], head[2+n:]
	id := codec.SealedBy(sealed)
	if id == 0 || !bytes.Equal(rest, make([]byte, len(rest))) {
		return nil, errHead
	}
	keys := s.keys.Load() // once: they may be replaced at any time
	if !keys.Has(id) {
		return nil, &NoKey{id}
	}
	key, err := keys.Decrypt(sealed, bound)
	if err != nil {
		return nil, fmt.Errorf("the key %08x does not decrypt it", id)
	}
	segments, err := segmentsOf(key)
	if err != nil {
		return nil, err
	}
	return segments.NewDecryptingReader(r, bound)
}

// NoKey is the error of what is encrypted with a key that is not there.
type NoKey struct{ ID uint32 }

// Error implements error.
func (n *NoKey) Error() string {
	return fmt.Sprintf("it is encrypted with the key %08x, which this node does not have: give it the file with that key "+
		"(--encryption-keys)", n.ID)
}

// Missing tells it from damage: the key may come.
func (*NoKey) Missing() bool { return true }

func segmentsOf(key []byte) (*subtle.AESGCMHKDF, error) {
	return subtle.NewAESGCMHKDF(key, "SHA256", streamKey, streamSegment, 0)
}
