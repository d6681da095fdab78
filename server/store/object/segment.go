package object

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// A segment is
//
//	"carillon segment 1\n", the log's id, the number, how many parts, then of each part
//	its partition, the epoch and the nonce of its term, and the batch; at the end the checksum of all that
//
// and a seal is the same without parts, with "carillon seal 1\n" and the id of the log that the sealer
// writes. Numbers are written as in batches.
const (
	segmentMagic  = "carillon segment 1\n"
	sealMagic     = "carillon seal 1\n"
	snapshotMagic = "carillon snapshot 1\n"
)

// part is a batch of a partition in a segment.
type part struct {
	partition int
	term      store.Term
	batch     []byte
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// summed appends the checksum of all bytes.
func summed(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

var (
	errSum   = errors.New("its checksum is wrong")
	errMagic = errors.New("it does not begin as it should")
	errNamed = errors.New("it says that it is another one")
)

// unsummed checks the checksum and what comes first, and returns what is between.
func unsummed(b []byte, magic string) (codec.Reader, error) {
	if len(b) < 4 || crc32.Checksum(b[:len(b)-4], castagnoli) != binary.LittleEndian.Uint32(b[len(b)-4:]) {
		return codec.Reader{}, errSum
	}
	rest, ok := bytes.CutPrefix(b[:len(b)-4], []byte(magic))
	if !ok {
		return codec.Reader{}, errMagic
	}
	return codec.Reader{B: rest}, nil
}

// encodeSegment is a segment of a log.
func encodeSegment(at place, parts []part) []byte {
	size := len(segmentMagic) + len(at.log) + 40
	for i := range parts {
		size += len(parts[i].batch) + 40
	}
	w := codec.Writer{B: append(make([]byte, 0, size), segmentMagic...)}
	w.Text(at.log)
	w.Number(at.number)
	w.Number(uint64(len(parts)))
	for i := range parts {
		p := &parts[i]
		w.Number(uint64(p.partition))
		w.Number(p.term.Epoch)
		w.Number(p.term.Nonce)
		w.Bytes(p.batch)
	}
	return summed(w.B)
}

// encodeSeal is the seal of a log, by who writes another one.
func encodeSeal(at place, by string) []byte {
	w := codec.Writer{B: []byte(sealMagic)}
	w.Text(at.log)
	w.Number(at.number)
	w.Text(by)
	return summed(w.B)
}

// isSeal reports whether an object of a log is its seal.
func isSeal(data []byte) bool { return bytes.HasPrefix(data, []byte(sealMagic)) }

// decodeSegment reads a segment, or a seal, which has no parts. The batches alias data.
func decodeSegment(at place, data []byte) (parts []part, sealed bool, err error) {
	sealed = isSeal(data)
	magic := segmentMagic
	if sealed {
		magic = sealMagic
	}
	r, err := unsummed(data, magic)
	if err == nil && (r.Text() != at.log || r.Number() != at.number) {
		err = errNamed
	}
	if err == nil && !sealed {
		for range r.Count() {
			p := part{partition: int(r.Number()), term: store.Term{Epoch: r.Number(), Nonce: r.Number()}}
			p.batch = r.Bytes()
			parts = append(parts, p)
		}
		err = r.Err
	}
	if err != nil {
		return nil, false, fmt.Errorf("%w: segment %d of log %s: %w", store.ErrDamaged, at.number, at.log, err)
	}
	return parts, sealed, nil
}
