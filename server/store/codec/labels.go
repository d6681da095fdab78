package codec

import "strings"

// SpecLabels returns the labels of a spec without decoding the rest; nil if it has none or is damaged.
func SpecLabels(spec []byte) map[string]string {
	var labels map[string]string
	c := coder{b: spec}
	for at := message(0); c.within(&at); {
		c.stringMap(specLabels, &labels)
	}
	if c.err != nil {
		return nil
	}
	return labels
}

// MatchLabel reports whether a spec has a label, given as in [carillon.JobQuery]: "key" with any value, or
// "key=value". An empty label matches every spec; a damaged spec matches no label. It does not allocate.
func MatchLabel(spec []byte, label string) bool {
	if label == "" {
		return true
	}
	wantKey, wantValue, exact := strings.Cut(label, "=")
	match := false
	c := coder{b: spec}
	for at := message(0); c.within(&at); {
		for c.field == specLabels {
			var key, value []byte
			for at := item(specLabels); c.within(&at); {
				c.bytes(1, &key)
				c.bytes(2, &value)
			}
			if string(key) == wantKey {
				match = !exact || string(value) == wantValue
			}
		}
	}
	return match && c.err == nil
}
