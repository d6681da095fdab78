package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/carillonhq/carillon"
)

// reader walks the fields of a protobuf message. The first thing that is wrong ends the walk and stays in
// err; a field that was read wrong is zero.
//
//	for r.next() {
//		switch r.field {
//		case 1:
//			x.Name = r.string()
//		default:
//			r.skip()
//		}
//	}
//	return r.err
type reader struct {
	b     []byte // what is left
	field int
	wire  int
	err   error
}

// Reasons why bytes are damaged.
var (
	errShort = errors.New("ends too early")
	errTag   = errors.New("not a field")
	errRange = errors.New("out of range")
)

// next steps to the next field; every field must then be read or skipped.
func (r *reader) next() bool {
	if r.err != nil || len(r.b) == 0 {
		return false
	}
	tag := r.varint()
	r.field, r.wire = int(tag>>3&math.MaxInt32), int(tag&7)
	if r.err == nil && (r.field == 0 || tag>>3 >= 1<<29) {
		r.fail(errTag)
	}
	return r.err == nil
}

func (r *reader) fail(err error) {
	if r.err == nil && err != nil {
		r.err = fmt.Errorf("field %d: %w", r.field, err)
	}
	r.b = nil
}

// check takes over the error of a nested message.
func (r *reader) check(err error) {
	if err != nil {
		r.fail(err)
	}
}

// expect checks that the field has the expected wire type.
func (r *reader) expect(wire int) bool {
	if r.wire != wire {
		r.fail(errTag)
	}
	return r.err == nil
}

func (r *reader) varint() uint64 {
	if len(r.b) > 0 && r.b[0] < 0x80 {
		v := r.b[0]
		r.b = r.b[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(r.b)
	switch {
	case n == 0:
		r.fail(errShort)
		return 0
	case n < 0:
		r.fail(errRange)
		return 0
	}
	r.b = r.b[n:]
	return v
}

// skip steps over a field that this version does not know.
func (r *reader) skip() {
	switch r.wire {
	case wireVarint:
		r.varint()
	case wire64:
		r.take(8)
	case wireBytes:
		r.take(r.varint())
	case wire32:
		r.take(4)
	default:
		r.fail(errTag)
	}
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail(errShort)
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// uint reads a uint64.
func (r *reader) uint() uint64 {
	if !r.expect(wireVarint) {
		return 0
	}
	return r.varint()
}

// upTo reads an unsigned number of at most most.
func (r *reader) upTo(most uint64) uint64 {
	v := r.uint()
	if v > most {
		r.fail(errRange)
		return 0
	}
	return v
}

// enum reads an enumeration; those of package carillon fit in a byte.
func (r *reader) enum() uint8 { return uint8(r.upTo(math.MaxUint8)) }

// bool reads a bool.
func (r *reader) bool() bool { return r.uint() != 0 }

// sint reads a sint64.
func (r *reader) sint() int64 {
	v := r.uint()
	return int64(v>>1) ^ -int64(v&1)
}

// int reads a sint64 that fits in an int.
func (r *reader) int() int {
	v := r.sint()
	if int64(int(v)) != v {
		r.fail(errRange)
		return 0
	}
	return int(v)
}

// duration reads a duration.
func (r *reader) duration() time.Duration { return time.Duration(r.sint()) }

// fixed reads a fixed64.
func (r *reader) fixed() uint64 {
	if !r.expect(wire64) {
		return 0
	}
	v := r.take(8)
	if v == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(v)
}

// nanos reads a time in UTC nanoseconds since 1970.
func (r *reader) nanos() int64 { return int64(r.fixed()) }

// time reads a time; 0 is the zero time.
func (r *reader) time() time.Time {
	n := r.nanos()
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// float reads a double.
func (r *reader) float() float64 { return math.Float64frombits(r.fixed()) }

// bytes reads bytes, which alias the message's; nil if there are none.
func (r *reader) bytes() []byte {
	if !r.expect(wireBytes) {
		return nil
	}
	v := r.take(r.varint())
	if len(v) == 0 {
		return nil
	}
	return v
}

// string reads a string.
func (r *reader) string() string { return string(r.bytes()) }

// uid reads a uid.
func (r *reader) uid() carillon.UID {
	v := r.bytes()
	if r.err == nil && len(v) != len(carillon.UID{}) {
		r.fail(errRange)
	}
	if r.err != nil {
		return carillon.UID{}
	}
	return carillon.UID(v)
}

// entry reads an entry of a map<string, string> into m, which is created if it is nil.
func (r *reader) entry(m map[string]string) map[string]string {
	key, value := r.pair()
	if r.err != nil {
		return m
	}
	if m == nil {
		m = make(map[string]string)
	}
	m[string(key)] = string(value)
	return m
}

// pair reads an entry of a map<string, string>; both alias the message's bytes.
func (r *reader) pair() (key, value []byte) {
	in := reader{b: r.bytes()}
	for in.next() {
		switch in.field {
		case 1:
			key = in.bytes()
		case 2:
			value = in.bytes()
		default:
			in.skip()
		}
	}
	r.check(in.err)
	return key, value
}
