package codec

import "strings"

// SpecLabels returns the labels of a spec without decoding the rest; nil if it has none or is damaged.
func SpecLabels(spec []byte) map[string]string {
	var labels map[string]string
	r := reader{b: spec}
	for r.next() {
		if r.field == specLabels {
			labels = r.entry(labels)
		} else {
			r.skip()
		}
	}
	if r.err != nil {
		return nil
	}
	return labels
}

// MatchLabel reports whether a spec has a label, given as in [store.ListQuery]: "key" with any value, or
// "key=value". An empty label matches every spec; a damaged spec matches no label. It does not allocate.
func MatchLabel(spec []byte, label string) bool {
	if label == "" {
		return true
	}
	wantKey, wantValue, exact := strings.Cut(label, "=")
	match := false
	r := reader{b: spec}
	for r.next() {
		if r.field != specLabels {
			r.skip()
			continue
		}
		key, value := r.pair()
		if string(key) == wantKey {
			match = !exact || string(value) == wantValue
		}
	}
	return match && r.err == nil
}
