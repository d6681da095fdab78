package pebble

import (
	"encoding/binary"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	"github.com/carillonhq/carillon/server/store/ordered"
)

// head is stored under a record's name: where its body is and which index entries it has. It is all that must
// be read to replace or delete the record.
type head struct {
	flags    headFlags
	priority uint8
	phase    carillon.Phase // under which the record is listed; scheduled: it is not
	due      int64          // hasDue
	queue    string         // hasStaged
	runDue   int64          // hasStaged
	live     store.RunID
	specLen  int    // specApart
	body     []byte // of a record that is in neither index; aliases the value read
}

// Priority and phase share a byte. In a head of before format 3 the half of the phase is 0.
const (
	phaseShift = 4
	mostHalf   = 1<<phaseShift - 1
)

// headFlags tell what a head holds. The twice flags mark keys that were set more than once since they were
// last absent: removing those takes a Delete. For others a SingleDelete does, which vanishes together with
// its Set in the first flush or compaction that meets both.
type headFlags byte

const (
	hasDue headFlags = 1 << iota
	hasStaged
	hasLive
	specInline // in the body
	specApart  // under its own key
	headTwice
	dueTwice
	stagedTwice
)

// is reports whether all of f are set.
func (h *head) is(f headFlags) bool { return h.flags&f == f }

// bodyInHead reports whether the record is in no index that could hold its body.
func (h *head) bodyInHead() bool { return h.flags&(hasDue|hasStaged) == 0 }

// headOf returns the head of a record that is written for the first time; the caller sets its spec.
func headOf(partition int, s *store.State) head {
	h := head{priority: s.Priority, phase: s.Phase}
	if s.Due != 0 {
		h.flags |= hasDue
		h.due = s.Due
	}
	if s.Phase == carillon.PhaseStaged {
		h.flags |= hasStaged
		h.queue, h.runDue = s.Queue, s.Run.Due
	}
	if s.Run.Live {
		h.flags |= hasLive
		h.live = s.Identity(partition)
	}
	return h
}

// append appends the encoded head without its body.
func (h *head) append(b []byte) []byte {
	b = append(b, byte(h.flags), h.priority|byte(h.phase)<<phaseShift)
	if h.is(hasDue) {
		b = binary.BigEndian.AppendUint64(b, uint64(h.due))
	}
	if h.is(hasStaged) {
		b = binary.AppendUvarint(b, uint64(len(h.queue)))
		b = append(b, h.queue...)
		b = binary.BigEndian.AppendUint64(b, uint64(h.runDue))
	}
	if h.is(hasLive) {
		b = append(b, h.live.UID[:]...)
		b = binary.BigEndian.AppendUint64(b, uint64(h.live.Scheduled))
		b = append(b, byte(h.live.Cause))
		b = binary.AppendUvarint(b, h.live.Seq)
	}
	if h.is(specApart) {
		b = binary.AppendUvarint(b, uint64(h.specLen))
	}
	return b
}

// parseHead decodes what append wrote; the rest is the body.
func parseHead(partition int, b []byte) (h head, err error) {
	c := ordered.Cutter{B: b}
	h.flags, h.priority = headFlags(c.Byte()), c.Byte()
	h.phase, h.priority = carillon.Phase(h.priority>>phaseShift), h.priority&mostHalf
	if h.is(hasDue) {
		h.due = int64(c.Uint64())
	}
	if h.is(hasStaged) {
		h.queue = string(c.Bytes(c.Uvarint()))
		h.runDue = int64(c.Uint64())
	}
	if h.is(hasLive) {
		h.live.Partition = uint16(partition)
		copy(h.live.UID[:], c.Bytes(uint64(len(h.live.UID))))
		h.live.Scheduled = int64(c.Uint64())
		h.live.Cause = carillon.Cause(c.Byte())
		h.live.Seq = c.Uvarint()
	}
	if h.is(specApart) {
		h.specLen = int(c.Uvarint())
	}
	h.body = c.B
	if c.Bad {
		return head{}, errKey
	}
	return h, nil
}

// spec tells where a record's spec is.
type spec struct {
	form   specForm
	inline []byte // specInBody
	length int    // specInKey
}

// specForm is a byte of the body.
type specForm byte

const (
	noSpec specForm = iota
	specInBody
	specInKey
)

// appendBody appends a record's body: the length of the state, the state, the spec's form, and the spec or
// its length.
func appendBody(b []byte, s *store.State, sp spec) []byte {
	const room = 2 // for the length, guessed; the state is moved if it is 16 KiB or longer
	at := len(b)
	b = codec.AppendState(append(b, make([]byte, room)...), s)
	if n := len(b) - at - room; n < 1<<(7*room) {
		b[at], b[at+1] = byte(n)|0x80, byte(n>>7)
	} else {
		state := append([]byte(nil), b[at+room:]...)
		b = append(binary.AppendUvarint(b[:at], uint64(n)), state...)
	}
	b = append(b, byte(sp.form))
	if sp.form == specInKey {
		return binary.AppendUvarint(b, uint64(sp.length))
	}
	return append(b, sp.inline...)
}

// splitBody splits what appendBody wrote; both results alias b.
func splitBody(b []byte) (state []byte, sp spec, err error) {
	c := ordered.Cutter{B: b}
	state = c.Bytes(c.Uvarint())
	switch sp.form = specForm(c.Byte()); sp.form {
	case noSpec:
	case specInBody:
		sp.inline = c.B
	case specInKey:
		sp.length = int(c.Uvarint())
	default:
		c.Bad = true
	}
	if c.Bad {
		return nil, spec{}, errKey
	}
	return state, sp, nil
}
