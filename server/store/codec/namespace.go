package codec

import (
	"maps"
	"slices"

	"github.com/carillonhq/carillon"
)

// EncodeNamespace encodes the settings of a namespace, without its name. The result is never nil.
func EncodeNamespace(n *carillon.Namespace) []byte {
	w := writer{b: []byte{}}
	w.bool(1, n.Strict)
	for _, key := range slices.Sorted(maps.Keys(n.ConcurrencyLimits)) {
		at := w.begin(2)
		w.string(1, key)
		w.sint(2, int64(n.ConcurrencyLimits[key]))
		w.end(at)
	}
	w.uint(3, n.Generation)
	return w.b
}

// DecodeNamespace decodes what EncodeNamespace wrote.
func DecodeNamespace(b []byte, name string) (carillon.Namespace, error) {
	n := carillon.Namespace{Name: name}
	r := reader{b: b}
	for r.next() {
		switch r.field {
		case 1:
			n.Strict = r.bool()
		case 2:
			r.limit(&n)
		case 3:
			n.Generation = r.uint()
		default:
			r.skip()
		}
	}
	if r.err != nil {
		return carillon.Namespace{}, damaged("namespace", r.err)
	}
	return n, nil
}

// limit reads an entry of the limits.
func (r *reader) limit(n *carillon.Namespace) {
	var key string
	var most int
	in := reader{b: r.bytes()}
	for in.next() {
		switch in.field {
		case 1:
			key = in.string()
		case 2:
			most = in.int()
		default:
			in.skip()
		}
	}
	r.check(in.err)
	if r.err != nil {
		return
	}
	if n.ConcurrencyLimits == nil {
		n.ConcurrencyLimits = map[string]int{}
	}
	n.ConcurrencyLimits[key] = most
}
