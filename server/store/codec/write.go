package codec

import (
	"encoding/binary"
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

// writer appends protobuf fields. A zero value is not written, so equal records have equal bytes.
type writer struct {
	b []byte
}

func (w *writer) tag(field, wire int) {
	w.b = binary.AppendUvarint(w.b, uint64(field)<<3|uint64(wire))
}

// uint writes a uint32 or uint64.
func (w *writer) uint(field int, v uint64) {
	if v != 0 {
		w.tag(field, wireVarint)
		w.b = binary.AppendUvarint(w.b, v)
	}
}

// sint writes a sint64.
func (w *writer) sint(field int, v int64) { w.uint(field, uint64(v)<<1^uint64(v>>63)) }

// bool writes a bool.
func (w *writer) bool(field int, v bool) {
	if v {
		w.uint(field, 1)
	}
}

// fixed writes a fixed64.
func (w *writer) fixed(field int, v uint64) {
	if v != 0 {
		w.tag(field, wire64)
		w.b = binary.LittleEndian.AppendUint64(w.b, v)
	}
}

// nanos writes a time in UTC nanoseconds since 1970, an sfixed64.
func (w *writer) nanos(field int, v int64) { w.fixed(field, uint64(v)) }

// time writes a time; the zero time is 0.
func (w *writer) time(field int, t time.Time) {
	if !t.IsZero() {
		w.nanos(field, t.UnixNano())
	}
}

// float writes a double.
func (w *writer) float(field int, v float64) { w.fixed(field, math.Float64bits(v)) }

// string writes a string unless it is empty.
func (w *writer) string(field int, s string) {
	if s != "" {
		w.item(field, s)
	}
}

// item writes a string even if it is empty: an element of a repeated field.
func (w *writer) item(field int, s string) {
	w.tag(field, wireBytes)
	w.b = binary.AppendUvarint(w.b, uint64(len(s)))
	w.b = append(w.b, s...)
}

// bytes writes bytes unless there are none.
func (w *writer) bytes(field int, v []byte) {
	if len(v) != 0 {
		w.tag(field, wireBytes)
		w.b = binary.AppendUvarint(w.b, uint64(len(v)))
		w.b = append(w.b, v...)
	}
}

// uid writes a uid.
func (w *writer) uid(field int, u carillon.UID) {
	if u != (carillon.UID{}) {
		w.bytes(field, u[:])
	}
}

// strings writes a repeated string.
func (w *writer) strings(field int, list []string) {
	for _, s := range list {
		w.item(field, s)
	}
}

// stringMap writes a map<string, string> by key.
func (w *writer) stringMap(field int, m map[string]string) {
	if len(m) == 0 {
		return
	}
	var few [16]string
	keys := few[:0]
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		at := w.begin(field)
		w.string(1, k)
		w.string(2, m[k])
		w.end(at)
	}
}

// span marks a nested message that is being written: where its tag and its body begin.
type span struct{ tag, body int }

// begin starts a nested message, with one byte for its length.
func (w *writer) begin(field int) span {
	at := span{tag: len(w.b)}
	w.tag(field, wireBytes)
	w.b = append(w.b, 0)
	at.body = len(w.b)
	return at
}

// end fills in the length; a body longer than 127 bytes is moved to make room for it.
func (w *writer) end(at span) {
	n := len(w.b) - at.body
	if more := (bits.Len(uint(n)|1) - 1) / 7; more > 0 {
		var room [binary.MaxVarintLen64]byte
		w.b = append(w.b, room[:more]...)
		copy(w.b[at.body+more:], w.b[at.body:at.body+n])
	}
	binary.PutUvarint(w.b[at.body-1:], uint64(n))
}

// endOrDrop is end, but removes a message without fields.
func (w *writer) endOrDrop(at span) {
	if len(w.b) == at.body {
		w.b = w.b[:at.tag]
		return
	}
	w.end(at)
}
