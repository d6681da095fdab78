package pebble

import (
	"encoding/binary"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// head is stored under a record's name: where its body is and which index entries it has. It is all that must
// be read to replace or delete the record.
type head struct {
	flags    headFlags
	priority uint8
	due      int64  // hasDue
	queue    string // hasStaged
	runDue   int64  // hasStaged
	live     store.RunID
	specLen  int    // specApart
	body     []byte // of a record that is in neither index; aliases the value read
}

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
	h := head{priority: s.Priority}
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
	b = append(b, byte(h.flags), h.priority)
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
	c := cutter{b: b}
	h.flags, h.priority = headFlags(c.byte()), c.byte()
	if h.is(hasDue) {
		h.due = c.int64()
	}
	if h.is(hasStaged) {
		h.queue = string(c.bytes(c.uvarint()))
		h.runDue = c.int64()
	}
	if h.is(hasLive) {
		h.live.Partition = uint16(partition)
		copy(h.live.UID[:], c.bytes(uint64(len(h.live.UID))))
		h.live.Scheduled = c.int64()
		h.live.Cause = carillon.Cause(c.byte())
		h.live.Seq = c.uvarint()
	}
	if h.is(specApart) {
		h.specLen = int(c.uvarint())
	}
	h.body = c.b
	if c.bad {
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
	c := cutter{b: b}
	state = c.bytes(c.uvarint())
	switch sp.form = specForm(c.byte()); sp.form {
	case noSpec:
	case specInBody:
		sp.inline = c.b
	case specInKey:
		sp.length = int(c.uvarint())
	default:
		c.bad = true
	}
	if c.bad {
		return nil, spec{}, errKey
	}
	return state, sp, nil
}

// cutter takes a value apart. When bytes are missing it becomes bad and returns zeros.
type cutter struct {
	b   []byte
	bad bool
}

func (c *cutter) bytes(n uint64) []byte {
	if c.bad || n > uint64(len(c.b)) {
		c.bad = true
		return nil
	}
	out := c.b[:n]
	c.b = c.b[n:]
	return out
}

func (c *cutter) byte() byte {
	if b := c.bytes(1); !c.bad {
		return b[0]
	}
	return 0
}

func (c *cutter) uint16() uint16 {
	if b := c.bytes(2); !c.bad {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (c *cutter) uint32() uint32 {
	if b := c.bytes(4); !c.bad {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (c *cutter) int64() int64 {
	if b := c.bytes(8); !c.bad {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (c *cutter) uvarint() uint64 {
	n, size := binary.Uvarint(c.b)
	if size <= 0 {
		c.bad = true
		return 0
	}
	c.b = c.b[size:]
	return n
}
