package pebble

import (
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/carillonhq/carillon/server/store/ordered"
)

// recoveryPoint is what a start must find in the folder. It holds only what an fsync has made durable; more
// may be there.
type recoveryPoint struct {
	version uint64 // grows with every write
	clean   bool   // the store was closed: its logs hold nothing
	marker  uint64 // generation of the marker file that names the manifest in force
	files   []extent
}

// extent is how much of a log or manifest must be there.
type extent struct {
	kind   byte // extentLog, extentManifest
	number uint64
	length int64
	sum    uint32 // CRC-32C of that much of a manifest; the chunks of a log have checksums of their own
}

// Kinds of extents.
const (
	extentLog      = 'L'
	extentManifest = 'M'
)

// A slot of the file is magic, length and CRC-32C of the rest, version, flags, marker, number of extents,
// extents.
const (
	slotMagic  = "CRP1"
	slotHead   = len(slotMagic) + 4 + 4
	slotFixed  = 8 + 1 + 8 + 2
	extentSize = 1 + 8 + 8 + 4
	slotSize   = 4 << 10
	slots      = 3
	slotClean  = 1 // flag
)

// mostExtents is how many fit into a slot. There are three logs in use, a few waiting to be reused, and two
// manifests.
const mostExtents = (slotSize - slotHead - slotFixed) / extentSize

// find returns the extent of a file, nil if there is none.
func (p *recoveryPoint) find(kind byte, number uint64) *extent {
	for i := range p.files {
		if e := &p.files[i]; e.kind == kind && e.number == number {
			return e
		}
	}
	return nil
}

// drop removes the extents that match.
func (p *recoveryPoint) drop(match func(e extent) bool) { p.files = slices.DeleteFunc(p.files, match) }

// append appends the encoded slot.
func (p *recoveryPoint) append(b []byte) []byte {
	start := len(b)
	b = append(append(b, slotMagic...), make([]byte, slotHead-len(slotMagic))...)
	b = binary.BigEndian.AppendUint64(b, p.version)
	flags := byte(0)
	if p.clean {
		flags = slotClean
	}
	b = binary.BigEndian.AppendUint64(append(b, flags), p.marker)
	b = binary.BigEndian.AppendUint16(b, uint16(len(p.files)))
	for _, e := range p.files {
		b = binary.BigEndian.AppendUint64(append(b, e.kind), e.number)
		b = binary.BigEndian.AppendUint64(b, uint64(e.length))
		b = binary.BigEndian.AppendUint32(b, e.sum)
	}
	body := b[start+slotHead:]
	binary.BigEndian.PutUint32(b[start+len(slotMagic):], uint32(len(body)))
	binary.BigEndian.PutUint32(b[start+len(slotMagic)+4:], crc32.Checksum(body, castagnoli))
	return b
}

// parseSlot decodes a slot; ok is false if it was not written whole, or is damaged.
func parseSlot(b []byte) (p recoveryPoint, ok bool) {
	c := ordered.Cutter{B: b}
	magic, length, sum := c.Bytes(uint64(len(slotMagic))), c.Uint32(), c.Uint32()
	if c.B = c.Bytes(uint64(length)); c.Bad || string(magic) != slotMagic ||
		crc32.Checksum(c.B, castagnoli) != sum {
		return p, false
	}
	p.version = c.Uint64()
	p.clean = c.Byte()&slotClean != 0
	p.marker = c.Uint64()
	for range c.Uint16() {
		p.files = append(p.files, extent{kind: c.Byte(), number: c.Uint64(), length: int64(c.Uint64()),
			sum: c.Uint32()})
	}
	return p, !c.Bad
}

// parseRecovery returns the newest slot of the file. There is always a whole one: a write begins in another
// slot than the one that was synced last.
func parseRecovery(b []byte) (p recoveryPoint, ok bool) {
	for at := 0; at < len(b); at += slotSize {
		if slot, whole := parseSlot(b[at:min(at+slotSize, len(b))]); whole && (!ok || slot.version > p.version) {
			p, ok = slot, true
		}
	}
	return p, ok
}
