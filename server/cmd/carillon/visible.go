package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// visible writes text that other users have stored, such as notes, metadata and error messages, to a
// terminal. A terminal interprets some characters as commands: they can clear the screen, set its title or
// fill the clipboard (OSC 52). Each is written as \u and its number, which in JSON means the same character.
type visible struct {
	w    io.Writer
	rest []byte // the beginning of a character whose other bytes have not come yet
}

// Write implements io.Writer.
func (v *visible) Write(p []byte) (int, error) {
	text := slices.Concat(v.rest, p)
	var b strings.Builder
	for len(text) > 0 && (utf8.FullRune(text) || len(text) >= utf8.UTFMax) {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteRune(utf8.RuneError)
		case isCommand(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.Write(text[:size])
		}
		text = text[size:]
	}
	v.rest = append([]byte(nil), text...)
	if _, err := io.WriteString(v.w, b.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// isCommand reports whether a terminal may act upon r, or display the text around it in another order: the
// control characters of C0 and C1 except the line feed and the tab, DEL, and the marks of bidirectional text.
func isCommand(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < 0x20, r >= 0x7f && r <= 0x9f:
		return true
	case r == 0x061c, r == 0x200e, r == 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return false
}
