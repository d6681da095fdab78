package pebble

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"github.com/carillonhq/carillon/server/store/ordered"
)

// Pebble's write-ahead logs and manifests share a format: blocks of 32 KiB, with chunks one after another,
// and zeros where no further chunk fits. A chunk is a checksum (4 bytes), the length of its payload (2), its
// type (1), in a log the low half of the log's number (4), in newer logs an offset that this package does not
// need (8), and the payload.
const (
	logBlock   = 32 << 10
	logHeader  = 7
	logNumber  = logHeader + 4
	logOffset  = logNumber + 8
	logTrailer = logNumber // a closed log ends with a header that has the number of the next log
)

// castagnoli is the polynomial of Pebble's checksums, and of those of this package.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// logChunk is a valid chunk.
type logChunk struct {
	first, last bool   // of its record
	payload     []byte // valid until the next chunk is read
}

// logReader reads the chunks of a log or manifest, as far as they are valid.
type logReader struct {
	r      io.Reader
	number uint32 // of the log; a manifest has none
	block  []byte
	held   int   // bytes of the block
	at     int   // where the next chunk begins
	base   int64 // offset of the block
}

func newLogReader(r io.Reader, number uint64) *logReader {
	return &logReader{r: r, number: uint32(number), block: make([]byte, logBlock), base: -logBlock,
		at: logBlock, held: logBlock}
}

// valid returns how far the log is valid: the end of the last chunk read, and of the zeros that follow it in
// its block.
func (l *logReader) valid() int64 { return max(l.base+int64(l.at), 0) }

// next returns the next chunk. ok is false where the log ends, or what follows is no chunk of it. The error
// is the file system's.
func (l *logReader) next() (c logChunk, ok bool, err error) {
	for {
		if l.padded() {
			if more, err := l.fill(); err != nil || !more {
				return logChunk{}, false, err
			}
		}
		if c, ok = l.chunk(); ok || !l.padded() {
			return c, ok, nil
		}
	}
}

// padded reports whether no further chunk fits into the block, and skips the zeros that fill it.
func (l *logReader) padded() bool {
	if l.at > logBlock-logOffset && l.held == logBlock && len(bytes.TrimLeft(l.block[l.at:], "\x00")) == 0 {
		l.at = logBlock
	}
	return l.at == logBlock
}

// fill reads the next block; false: there is none.
func (l *logReader) fill() (bool, error) {
	n, err := io.ReadFull(l.r, l.block)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return false, err
	}
	if n == 0 {
		return false, nil
	}
	l.base, l.at, l.held = l.base+logBlock, 0, n
	return true, nil
}

// chunk returns the chunk that begins at l.at.
func (l *logReader) chunk() (c logChunk, ok bool) {
	b := l.block[l.at:l.held]
	if len(b) < logHeader {
		return c, false
	}
	kind, header := b[6], logHeader
	switch {
	case kind == 0 || kind > 12:
		return c, false
	case kind > 8:
		header = logOffset
	case kind > 4:
		header = logNumber
	}
	end := header + int(binary.LittleEndian.Uint16(b[4:]))
	if len(b) < header {
		return c, false
	}
	if header > logHeader {
		switch number := binary.LittleEndian.Uint32(b[logHeader:]); {
		case number == l.number+1 && end == logTrailer && binary.LittleEndian.Uint32(b) == 0:
			l.at += logTrailer
			return c, false
		case number != l.number:
			return c, false
		}
	}
	if len(b) < end || binary.LittleEndian.Uint32(b) != chunkSum(b[6:end]) {
		return c, false
	}
	l.at += end
	part := (kind - 1) % 4 // whole record, first of several, in the middle, last
	return logChunk{first: part <= 1, last: part == 0 || part == 3, payload: b[header:end]}, true
}

// chunkSum returns a chunk's checksum: a CRC, rotated and offset so that one over data that includes its own
// is no weaker.
func chunkSum(b []byte) uint32 {
	sum := crc32.Checksum(b, castagnoli)
	return (sum>>15 | sum<<17) + 0xa282ead8
}

// each calls f with every whole record of the log. f must not keep it.
func (l *logReader) each(f func(record []byte) error) error {
	var record []byte
	whole := false
	for {
		c, ok, err := l.next()
		if err != nil || !ok {
			return err
		}
		if c.first {
			record, whole = record[:0], true
		}
		record = append(record, c.payload...)
		if c.last && whole {
			whole = false
			if err := f(record); err != nil {
				return err
			}
		}
	}
}

// Tags of a manifest's records. Each record begins with single values, the log number among the first.
const (
	tagComparer = 1
	tagLog      = 2
	tagNextFile = 3
	tagSequence = 4
	tagPrevLog  = 9
)

// firstLog returns the first log that must be read when the store is opened, according to a record of a
// manifest; 0 if the record does not say. All earlier logs are in tables.
func firstLog(record []byte) uint64 {
	for c := (ordered.Cutter{B: record}); !c.Bad && len(c.B) > 0; {
		switch c.Uvarint() {
		case tagComparer:
			c.Bytes(c.Uvarint())
		case tagLog:
			if number := c.Uvarint(); !c.Bad {
				return number
			}
		case tagNextFile, tagSequence, tagPrevLog:
			c.Uvarint()
		default:
			return 0
		}
	}
	return 0
}
