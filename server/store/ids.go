package store

import (
	"encoding/base32"
	"encoding/binary"
	"time"

	"github.com/carillonhq/carillon"
)

// NewUID returns the uid of a job: the first 8 bytes are [KeyHash] of its key, the last 8 are random. So a
// run id leads to its records without an index (docs/decisions/0003).
func NewUID(k carillon.Key, random [8]byte) carillon.UID {
	var u carillon.UID
	binary.BigEndian.PutUint64(u[:8], KeyHash(k))
	copy(u[8:], random[:])
	return u
}

// KeyHash is FNV-1a 64 of namespace, a zero byte and name, with the finaliser of MurmurHash3 so that all its
// bits are well distributed. It is fixed for ever by the store's format version.
func KeyHash(k carillon.Key) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(k.Namespace) {
		h = (h ^ uint64(k.Namespace[i])) * prime
	}
	h *= prime // the zero byte
	for i := range len(k.Name) {
		h = (h ^ uint64(k.Name[i])) * prime
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// PartitionOf returns the partition, of n, that a job belongs to.
func PartitionOf(k carillon.Key, n int) int { return int(KeyHash(k) % uint64(n)) }

// HashOf returns the [KeyHash] of the job's key that a uid was made for.
func HashOf(u carillon.UID) uint64 { return binary.BigEndian.Uint64(u[:8]) }

// RunID is the content of a run id. It has neither generation nor node, so that an edit that keeps an
// instant does not make it run twice.
type RunID struct {
	Partition uint16
	UID       carillon.UID
	Scheduled int64 // UTC nanoseconds since 1970
	Cause     carillon.Cause
	Seq       uint64 // number of a trigger; 0 for the schedule's own
}

// In returns the id that the run has in a store of n partitions. Ids that were given before the store moved
// to another number of partitions name a partition of that time, and lead to the run all the same, by its
// uid.
func (r RunID) In(n int) RunID {
	r.Partition = uint16(HashOf(r.UID) % uint64(n))
	return r
}

// runIDVersion is the first byte of every run id.
const runIDVersion = 1

// idEncoding keeps the order of what it encodes and is safe in paths and headers.
var idEncoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// String returns the run id.
func (r RunID) String() string {
	var text [runIDMost]byte
	return string(r.appendText(text[:0]))
}

// runIDMost exceeds the length of every run id, so that ids are encoded and decoded without allocating.
const runIDMost = 80

func (r RunID) appendText(b []byte) []byte {
	var raw [48]byte
	return idEncoding.AppendEncode(b, r.AppendBinary(raw[:0]))
}

// AppendBinary appends the id's bytes: version, partition, uid, scheduled, cause, seq.
func (r RunID) AppendBinary(b []byte) []byte {
	b = append(b, runIDVersion)
	b = binary.BigEndian.AppendUint16(b, r.Partition)
	b = append(b, r.UID[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Scheduled))
	b = append(b, byte(r.Cause))
	return binary.AppendUvarint(b, r.Seq)
}

// runIDHead is the length of a run id's bytes before the sequence.
const runIDHead = 1 + 2 + 16 + 8 + 1

// ParseRunID decodes a run id.
func ParseRunID(id string) (RunID, error) {
	var text, raw [runIDMost]byte
	if len(id) > len(text) {
		return RunID{}, notRunID(id)
	}
	n, err := idEncoding.Decode(raw[:], text[:copy(text[:], id)])
	if err != nil {
		return RunID{}, notRunID(id)
	}
	r, err := DecodeRunID(raw[:n])
	// base32 skips line breaks and ignores spare bits; a run has one id only
	if err != nil || string(r.appendText(text[:0])) != id {
		return RunID{}, notRunID(id)
	}
	return r, nil
}

func notRunID(id string) error {
	return carillon.Errorf(carillon.InvalidArgument, "id", "%.64q is not a run id", id)
}

// DecodeRunID decodes what [RunID.AppendBinary] wrote.
func DecodeRunID(raw []byte) (RunID, error) {
	if len(raw) <= runIDHead || raw[0] != runIDVersion {
		return RunID{}, carillon.Errorf(carillon.InvalidArgument, "id", "these are not the bytes of a run id")
	}
	r := RunID{
		Partition: binary.BigEndian.Uint16(raw[1:]),
		UID:       carillon.UID(raw[3:19]),
		Scheduled: int64(binary.BigEndian.Uint64(raw[19:])),
		Cause:     carillon.Cause(raw[27]),
	}
	seq, n := binary.Uvarint(raw[runIDHead:])
	if n != len(raw)-runIDHead {
		return RunID{}, carillon.Errorf(carillon.InvalidArgument, "id", "these are not the bytes of a run id")
	}
	r.Seq = seq
	return r, nil
}

// ScheduledTime returns Scheduled as a time.
func (r RunID) ScheduledTime() time.Time { return time.Unix(0, r.Scheduled).UTC() }
