package clienttls

import (
	"slices"
	"testing"
)

// TestPEMIsWhole: however much is missing of a second or of a middle block, the first alone is not taken.
func TestPEMIsWhole(t *testing.T) {
	a, b := newAuthority(t).anchors(), newAuthority(t).anchors()
	for what, text := range map[string][]byte{
		"one": a, "two": slices.Concat(a, b), "between": slices.Concat([]byte("of a\n"), a, []byte("\nsubject=b\n"), b),
		"after": slices.Concat(a, []byte("\r\n \n# of a\n")), "without an end of line": a[:len(a)-1],
	} {
		if _, err := Certificates(text); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for n := 1; n < len(b)-1; n++ { // a missing end of line at the end is no harm
		if _, err := Certificates(slices.Concat(a, b[:n])); err == nil {
			t.Errorf("a second block of %d bytes, of %d, is not missed", n, len(b))
		}
	}
	half := b[:len(b)/2]
	for what, text := range map[string][]byte{
		"a block that does not decode, in the middle": slices.Concat(a, half, []byte("\n"), a),
		"the same without an end of line":             slices.Concat(a, half, a),
		"first":                                       slices.Concat(half, []byte("\n"), a),
		"garbage at the end":                          slices.Concat(a, []byte("garbage\n")),
	} {
		if _, err := Certificates(text); err == nil {
			t.Errorf("%s: it is taken", what)
		}
	}
}
