package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/carillonhq/carillon"
)

// Wire types of protobuf.
const (
	wireVarint = 0
	wire64     = 1
	wireBytes  = 2
	wire32     = 5
)

// coder writes protobuf messages, or reads them: one list of its fields serves a message for both. In
// reading, a call takes the field that is next if it is its own; so fields in the order of the list are read
// in one round, and any others in further rounds. A zero value is not written, so equal records have equal
// bytes. The first thing that is wrong ends the reading and stays in err.
//
//	for at := message(1); c.within(&at); {
//		c.string(1, &x.Name)
//		unsigned(c, 2, &x.Size)
//	}
type coder struct {
	b       []byte // what is written, or what is left to read
	writing bool
	field   int // that is next to read; 0 if the message has no more
	wire    int // the field's wire type
	err     error
}

// Reasons why bytes are damaged.
var (
	errShort = errors.New("ends too early")
	errTag   = errors.New("not a field")
	errRange = errors.New("out of range")
)

// span is a message that is being written or read.
type span struct {
	field   int  // its number in the message around it; 0: there is none around it
	keep    bool // it is written even if it has no fields
	entered bool // its fields have been listed once
	body    int  // where its body begins in what is written; in reading, what was left when the last round began
	rest    int  // how much follows it in what is read
}

// message is a message that is left out if it has no fields.
func message(field int) span { return span{field: field} }

// item is a message that is written even if it has no fields.
func item(field int) span { return span{field: field, keep: true} }

// within reports whether the fields of the message are to be listed: once, and in reading once more while
// any are left. When it is false, the message is complete, or is not what is next to read.
func (c *coder) within(m *span) bool {
	switch {
	case c.writing && m.entered:
		c.close(m)
		return false
	case c.writing:
		m.entered = true
		c.open(m)
		return true
	case !m.entered:
		m.entered = c.enter(m)
		if !m.entered {
			return false
		}
	case c.field > 0 && len(c.b) == m.body: // a field that the list does not have
		c.skip()
		c.step()
	}
	m.body = len(c.b)
	if c.field == 0 {
		c.leave(m)
		return false
	}
	return true
}

// enter goes on with what is within the message, if that is what is next.
func (c *coder) enter(m *span) bool {
	if m.field > 0 {
		if !c.next(m.field, wireBytes) {
			return false
		}
		n := c.varint()
		if n > uint64(len(c.b)) {
			c.fail(errShort)
			return false
		}
		c.b, m.rest = c.b[:n], len(c.b)-int(n)
	}
	c.step()
	return true
}

// leave goes on with what follows the message.
func (c *coder) leave(m *span) {
	if c.err == nil {
		c.b = c.b[:m.rest]
		c.step()
	} else if m.field > 0 {
		c.err = fmt.Errorf("field %d: %w", m.field, c.err)
	}
}

// open writes the tag of the message and a byte for its length.
func (c *coder) open(m *span) {
	if m.field > 0 {
		c.tag(m.field, wireBytes)
		c.b = append(c.b, 0)
		m.body = len(c.b)
	}
}

// close fills in the length; a body longer than 127 bytes is moved to make room for it.
func (c *coder) close(m *span) {
	n := len(c.b) - m.body
	switch {
	case m.field == 0:
		return
	case n == 0 && !m.keep:
		c.b = c.b[:m.body-1-(bits.Len(uint(m.field)<<3)+6)/7]
		return
	}
	if more := (bits.Len(uint(n)|1) - 1) / 7; more > 0 {
		var room [binary.MaxVarintLen64]byte
		c.b = append(c.b, room[:more]...)
		copy(c.b[m.body+more:], c.b[m.body:m.body+n])
	}
	binary.PutUvarint(c.b[m.body-1:], uint64(n))
}

func (c *coder) tag(field, wire int) {
	if field < 16 {
		c.b = append(c.b, byte(field<<3|wire))
	} else {
		c.b = binary.AppendUvarint(c.b, uint64(field)<<3|uint64(wire))
	}
}

// step reads the tag of the next field.
func (c *coder) step() {
	c.field = 0
	if c.err != nil || len(c.b) == 0 {
		return
	}
	tag := c.varint()
	c.field, c.wire = int(tag>>3&math.MaxInt32), int(tag&7)
	if c.field == 0 || tag>>3 >= 1<<29 {
		c.fail(errTag)
	}
}

// next reports whether a field is what is next to read. One of another wire type than expected is an error.
func (c *coder) next(field, wire int) bool {
	if c.field != field {
		return false
	}
	if c.wire != wire {
		c.fail(errTag)
	}
	return c.err == nil
}

func (c *coder) fail(err error) {
	if c.err == nil {
		c.err = fmt.Errorf("field %d: %w", c.field, err)
	}
	c.b, c.field = nil, 0
}

func (c *coder) varint() uint64 {
	if len(c.b) > 0 && c.b[0] < 0x80 {
		v := c.b[0]
		c.b = c.b[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(c.b)
	switch {
	case n == 0:
		c.fail(errShort)
		return 0
	case n < 0:
		c.fail(errRange)
		return 0
	}
	c.b = c.b[n:]
	return v
}

// skip steps over the value of a field that this version does not know.
func (c *coder) skip() {
	switch c.wire {
	case wireVarint:
		c.varint()
	case wire64:
		c.take(8)
	case wireBytes:
		c.take(c.varint())
	case wire32:
		c.take(4)
	default:
		c.fail(errTag)
	}
}

func (c *coder) take(n uint64) []byte {
	if n > uint64(len(c.b)) {
		c.fail(errShort)
		return nil
	}
	v := c.b[:n:n]
	c.b = c.b[n:]
	return v
}

// unsigned is an unsigned number, or an enumeration.
func unsigned[T ~uint8 | ~uint16 | ~uint32 | ~uint64](c *coder, field int, v *T) {
	if *v != 0 || c.field == field {
		number(c, field, v)
	}
}

// number is an unsigned number that is written even if it is zero.
func number[T ~uint8 | ~uint16 | ~uint32 | ~uint64](c *coder, field int, v *T) {
	if c.writing {
		c.put(field, uint64(*v))
	} else if c.next(field, wireVarint) {
		*v = T(c.get(uint64(^T(0))))
	}
}

// signed is a sint64, or one that fits in an int.
func signed[T ~int | ~int32 | ~int64](c *coder, field int, v *T) {
	if *v != 0 || c.field == field {
		zigzag(c, field, v)
	}
}

func zigzag[T ~int | ~int32 | ~int64](c *coder, field int, v *T) {
	if c.writing {
		c.put(field, uint64(*v)<<1^uint64(int64(*v)>>63))
	} else if c.next(field, wireVarint) {
		n := c.get(math.MaxUint64)
		wide := int64(n>>1) ^ -int64(n&1)
		if *v = T(wide); int64(*v) != wide {
			c.fail(errRange)
		}
	}
}

// put writes a number.
func (c *coder) put(field int, v uint64) {
	c.tag(field, wireVarint)
	c.b = binary.AppendUvarint(c.b, v)
}

// get reads a number of at most most.
func (c *coder) get(most uint64) uint64 {
	v := c.varint()
	if v > most {
		c.fail(errRange)
	}
	c.step()
	return v
}

// bool is a bool.
func (c *coder) bool(field int, v *bool) {
	if *v || c.field == field {
		c.flag(field, v)
	}
}

func (c *coder) flag(field int, v *bool) {
	if c.writing {
		c.put(field, 1)
	} else if c.next(field, wireVarint) {
		*v = c.get(math.MaxUint64) != 0
	}
}

// optional is a uint32 that may be absent: zero is written, nil is not.
func (c *coder) optional(field int, v **uint32) {
	if c.field == field {
		*v = new(uint32)
	}
	if *v != nil {
		number(c, field, *v)
	}
}

// nonce is a fixed64.
func (c *coder) nonce(field int, v *uint64) {
	if *v != 0 || c.field == field {
		fixed(c, field, v)
	}
}

// nanos is a time in UTC nanoseconds since 1970, an sfixed64.
func (c *coder) nanos(field int, v *int64) {
	if *v != 0 || c.field == field {
		fixed(c, field, v)
	}
}

func fixed[T int64 | uint64](c *coder, field int, v *T) {
	if c.writing {
		c.tag(field, wire64)
		c.b = binary.LittleEndian.AppendUint64(c.b, uint64(*v))
	} else if c.next(field, wire64) {
		if raw := c.take(8); raw != nil {
			*v = T(binary.LittleEndian.Uint64(raw))
		}
		c.step()
	}
}

// time is a time as nanos; the zero time is 0.
func (c *coder) time(field int, v *time.Time) {
	var n int64
	if !v.IsZero() {
		n = v.UnixNano()
	}
	c.nanos(field, &n)
	if !c.writing {
		*v = time.Time{}
		if n != 0 {
			*v = time.Unix(0, n).UTC()
		}
	}
}

// float is a double.
func (c *coder) float(field int, v *float64) {
	bits := math.Float64bits(*v)
	c.nonce(field, &bits)
	if !c.writing {
		*v = math.Float64frombits(bits)
	}
}

// bytes is bytes, left out if there are none; what is read aliases what it is read from.
func (c *coder) bytes(field int, v *[]byte) {
	switch {
	case !c.writing && c.next(field, wireBytes):
		if *v = c.body(); len(*v) == 0 {
			*v = nil
		}
	case c.writing && len(*v) > 0:
		write(c, field, *v)
	}
}

// string is a string, left out if it is empty.
func (c *coder) string(field int, v *string) {
	if *v != "" || c.field == field {
		c.element(field, v)
	}
}

// element is a string that is written even if it is empty.
func (c *coder) element(field int, v *string) {
	if c.writing {
		write(c, field, *v)
	} else if c.next(field, wireBytes) {
		*v = string(c.body())
	}
}

// write writes a string or bytes.
func write[T string | []byte](c *coder, field int, v T) {
	c.tag(field, wireBytes)
	c.b = binary.AppendUvarint(c.b, uint64(len(v)))
	c.b = append(c.b, v...)
}

// body reads a string or bytes.
func (c *coder) body() []byte {
	v := c.take(c.varint())
	c.step()
	return v
}

// strings is a repeated string.
func (c *coder) strings(field int, list *[]string) {
	for v := range each(c, field, list) {
		c.element(field, v)
	}
}

// when is the text of a time.
func (c *coder) when(field int, v *carillon.When) {
	s := v.String()
	c.string(field, &s)
	if !c.writing {
		*v = carillon.WhenText(s)
	}
}

// uid is a uid, left out if it is zero.
func (c *coder) uid(field int, u *carillon.UID) {
	switch {
	case !c.writing && c.next(field, wireBytes):
		raw := c.body()
		if len(raw) != len(u) {
			c.fail(errRange)
		}
		copy(u[:], raw)
	case c.writing && *u != (carillon.UID{}):
		write(c, field, u[:])
	}
}

// texts is a message whose fields 1, 2, … are strings.
func (c *coder) texts(field int, values ...*string) {
	for at := item(field); c.within(&at); {
		for i, s := range values {
			c.string(i+1, s)
		}
	}
}

// stringMap is a map<string, string>, written by key.
func (c *coder) stringMap(field int, m *map[string]string) {
	if c.writing && len(*m) > 0 {
		var few [16]string
		keys := few[:0]
		for k := range *m {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			v := (*m)[k]
			c.texts(field, &k, &v)
		}
	}
	for c.field == field {
		var k, v string
		c.texts(field, &k, &v)
		if *m == nil {
			*m = map[string]string{}
		}
		(*m)[k] = v
	}
}

// each is the items of a repeated field: those to be written, or one more for each that is next to read.
func each[T any](c *coder, field int, list *[]T) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i := 0; c.writing && i < len(*list); i++ {
			if !yield(&(*list)[i]) {
				return
			}
		}
		for c.field == field {
			*list = append(*list, *new(T))
			if !yield(&(*list)[len(*list)-1]) {
				return
			}
		}
	}
}
