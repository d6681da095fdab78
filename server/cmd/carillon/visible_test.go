package main

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"

	"pgregory.net/rapid"
)

func TestVisible(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"plain\tand\ngrün 鐘 🔔\n", "plain\tand\ngrün 鐘 🔔\n"},
		{"\x1b]52;c;cm0gLXJm\x07", `\u001b]52;c;cm0gLXJm\u0007`},
		{"a\rb\x08c\x7f", `a\u000db\u0008c\u007f`},
		{"\u009b2J", `\u009b2J`},
		{"abc\u202efdp.exe\u2066", `abc\u202efdp.exe\u2066`},
		{"a\xffb", "a\ufffdb"},
	} {
		if got := shown(t, []byte(c.text), len(c.text)); got != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
}

// shown is what visible makes of text that is written in pieces of n bytes.
func shown(t interface{ Fatal(...any) }, text []byte, n int) string {
	var out bytes.Buffer
	v := &visible{w: &out}
	for len(text) > 0 {
		piece := text[:min(n, len(text))]
		if k, err := v.Write(piece); k != len(piece) || err != nil {
			t.Fatal(k, err)
		}
		text = text[len(piece):]
	}
	return out.String()
}

func TestVisibleProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		encoded, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		got := shown(t, encoded, rapid.IntRange(1, 9).Draw(t, "piece"))
		for _, r := range got {
			if isCommand(r) {
				t.Fatalf("%q is written as it is", r)
			}
		}
		var back string
		if err := json.Unmarshal([]byte(got), &back); err != nil || back != text {
			t.Fatalf("the JSON of %q became that of %q, %v", text, back, err)
		}
	})
}

func TestVisibleTellsWhatFailed(t *testing.T) {
	r, w := io.Pipe()
	r.Close()
	if n, err := (&visible{w: w}).Write([]byte("ab")); n != 0 || err == nil {
		t.Errorf("got %d, %v; want the writer's error", n, err)
	}
}
