package transfer

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// Digest is the sum of the SHA-256 of everything that moved, each as four numbers: the order does not matter,
// which differs from store to store.
type Digest [4]uint64

// Add adds modulo 2^256.
func (d *Digest) Add(o Digest) {
	var carry uint64
	for i := range d {
		d[i], carry = bits.Add64(d[i], o[i], carry)
	}
}

// String is the digest in hexadecimal digits.
func (d Digest) String() string {
	var b [32]byte
	for i, n := range d {
		binary.LittleEndian.PutUint64(b[8*i:], n)
	}
	return hex.EncodeToString(b[:])
}

// MarshalText implements [encoding.TextMarshaler].
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Digest) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != 32 {
		return fmt.Errorf("%q is not a digest of 64 hexadecimal digits", text)
	}
	for i := range d {
		d[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return nil
}

// DigestOf sums up what a batch puts into a partition.
func DigestOf(partition int, b *store.Batch) (sum Digest, err error) {
	if len(b.Deletes)+len(b.Redrive)+len(b.Trims) > 0 || b.Expire != nil {
		return sum, fmt.Errorf("%w: a batch that removes something", store.ErrDamaged)
	}
	one := func(b *store.Batch) {
		text := codec.AppendBatch(binary.BigEndian.AppendUint16(nil, uint16(partition)), b)
		h := sha256.Sum256(text)
		var d Digest
		for i := range d {
			d[i] = binary.LittleEndian.Uint64(h[8*i:])
		}
		sum.Add(d)
	}
	for i := range b.Puts {
		one(&store.Batch{Puts: b.Puts[i : i+1]})
	}
	for i := range b.Runs {
		one(&store.Batch{Runs: b.Runs[i : i+1]})
	}
	for i := range b.MetaRecords {
		one(&store.Batch{MetaRecords: b.MetaRecords[i : i+1]})
	}
	return sum, nil
}
