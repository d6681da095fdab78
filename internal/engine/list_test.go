package engine

import (
	"encoding/base64"
	"testing"
)

// TestForgedPageToken: what is no page token is refused, whatever it decodes to.
func TestForgedPageToken(t *testing.T) {
	for _, text := range []string{"null", "0", "[]", `"x"`, `{"x":"AA=="}`, `{"1":"?"}`, "{", "\x00"} {
		if c, err := parseCursors(base64.RawURLEncoding.EncodeToString([]byte(text))); err == nil {
			t.Errorf("%s: taken as %v", text, c)
		}
	}
	if _, err := parseCursors("not base64!"); err == nil {
		t.Error("what is not base64 was taken")
	}
}
