// Package ordered encodes what the keys of a store are made of, so that keys sort like what they encode and
// none is a prefix of another. The encoding is fixed by store.Format.
package ordered

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/server/store"
)

// ErrMalformed reports bytes that this package cannot have written: the store is damaged.
var ErrMalformed = fmt.Errorf("malformed entry: %w", store.ErrDamaged)

// After returns the first key after all that begin with prefix; nil if there is none.
func After(prefix []byte) []byte {
	for i, last := range slices.Backward(prefix) {
		if last != math.MaxUint8 {
			return append(append(make([]byte, 0, i+1), prefix[:i]...), last+1)
		}
	}
	return nil
}

// AppendText appends s: bytes 0 and 1 become 1,1 and 1,2, and a 0 ends it.
func AppendText(b []byte, s string) []byte { return append(AppendPrefix(b, s), 0) }

// AppendPrefix is AppendText without the end: what all texts that begin with s begin with.
func AppendPrefix(b []byte, s string) []byte {
	start := 0
	for i := range len(s) {
		if s[i] <= 1 {
			b = append(append(b, s[start:i]...), 1, s[i]+1)
			start = i + 1
		}
	}
	return append(b, s[start:]...)
}

var plain = strings.NewReplacer("\x01\x01", "\x00", "\x01\x02", "\x01")

// AppendTime appends a time, which may be before 1970.
func AppendTime(b []byte, t int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(t)^1<<63) }

// AppendTimeDesc is AppendTime with the newest first.
func AppendTimeDesc(b []byte, t int64) []byte {
	return binary.BigEndian.AppendUint64(b, ^(uint64(t) ^ 1<<63))
}

// AppendSeq appends n: a length, then that many bytes. 0 takes one byte.
func AppendSeq(b []byte, n uint64) []byte {
	var raw [8]byte
	binary.BigEndian.PutUint64(raw[:], n)
	skip := 0
	for skip < len(raw) && raw[skip] == 0 {
		skip++
	}
	return append(append(b, byte(len(raw)-skip)), raw[skip:]...)
}

// AppendRef appends a ref so that keys sort like [store.Ref.Compare].
func AppendRef(b []byte, r store.Ref) []byte {
	return AppendSeq(AppendText(AppendText(b, r.Namespace), r.Name), r.Seq)
}

// ParseRef decodes what AppendRef wrote; nothing may follow.
func ParseRef(b []byte) (store.Ref, error) {
	c := Cutter{B: b}
	r := c.Ref()
	return r, c.End()
}

// Cutter takes bytes apart. When some are missing or malformed it becomes bad and returns zeros.
type Cutter struct {
	B   []byte // what is left
	Bad bool
}

func (c *Cutter) fail() { c.B, c.Bad = nil, true }

// End returns ErrMalformed if the cutter is bad, or something is left.
func (c *Cutter) End() error {
	if c.Bad || len(c.B) > 0 {
		return ErrMalformed
	}
	return nil
}

// Bytes cuts off n bytes.
func (c *Cutter) Bytes(n uint64) []byte {
	if c.Bad || n > uint64(len(c.B)) {
		c.fail()
		return nil
	}
	out := c.B[:n]
	c.B = c.B[n:]
	return out
}

// number cuts off an integer of some bytes, big endian.
func (c *Cutter) number(size uint64) (n uint64) {
	for _, b := range c.Bytes(size) {
		n = n<<8 | uint64(b)
	}
	return n
}

// Byte cuts off a byte.
func (c *Cutter) Byte() byte { return byte(c.number(1)) }

// Uint16 cuts off two bytes.
func (c *Cutter) Uint16() uint16 { return uint16(c.number(2)) }

// Uint32 cuts off four bytes.
func (c *Cutter) Uint32() uint32 { return uint32(c.number(4)) }

// Uint64 cuts off eight bytes.
func (c *Cutter) Uint64() uint64 { return c.number(8) }

// Uvarint cuts off what binary.AppendUvarint wrote.
func (c *Cutter) Uvarint() uint64 {
	n, size := binary.Uvarint(c.B)
	if size <= 0 {
		c.fail()
		return 0
	}
	c.B = c.B[size:]
	return n
}

// Text cuts off what AppendText wrote.
func (c *Cutter) Text() string {
	escaped := false
	for i := 0; i < len(c.B); i++ {
		switch c.B[i] {
		case 0:
			text := string(c.B[:i])
			c.B = c.B[i+1:]
			if escaped {
				text = plain.Replace(text)
			}
			return text
		case 1:
			escaped = true
			if i++; i < len(c.B) && (c.B[i] < 1 || c.B[i] > 2) {
				c.fail()
			}
		}
	}
	c.fail()
	return ""
}

// Time cuts off what AppendTime wrote.
func (c *Cutter) Time() int64 {
	if b := c.Bytes(8); b != nil {
		return int64(binary.BigEndian.Uint64(b) ^ 1<<63)
	}
	return 0
}

// Seq cuts off what AppendSeq wrote.
func (c *Cutter) Seq() uint64 {
	size := c.Byte()
	if size > 8 {
		c.fail()
	}
	return c.number(uint64(size))
}

// Ref cuts off what AppendRef wrote.
func (c *Cutter) Ref() (r store.Ref) {
	r.Namespace, r.Name, r.Seq = c.Text(), c.Text(), c.Seq()
	return r
}
