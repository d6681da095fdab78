package httpapi

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON can write half of a character, "\ud800", of which no text can be made. encoding/json takes it for
// U+FFFD, and the caller would find another text than was sent: under a name that two such texts share, in
// metadata that no longer match.

// stringOf is a JSON string; path is its field, or the object that it is a name in.
func stringOf(path string, raw []byte) (s string, err error) {
	if last := len(raw) - 1; last > 0 && raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1:last]), nil // as it is: the syntax was checked
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", wrongType(path, "a string")
	}
	if strings.ContainsRune(s, utf8.RuneError) {
		if half := loneSurrogate(raw); half != "" {
			return "", invalid(path, `%s is half of a surrogate pair without the other half, and no character`, half)
		}
	}
	return s, nil
}

// escapeLength is that of "\ud800".
const escapeLength = 6

// loneSurrogate is the first escape in well formed JSON that stands for half a character; "" if there is
// none.
func loneSurrogate(raw []byte) string {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return ""
		}
		raw = raw[i:]
		half := escaped(raw)
		switch {
		case half < 0:
			raw = raw[2:] // another escape, such as \\ or \n
		case !utf16.IsSurrogate(half):
			raw = raw[escapeLength:]
		case utf16.DecodeRune(half, escaped(raw[escapeLength:])) == utf8.RuneError:
			return string(raw[:escapeLength])
		default:
			raw = raw[2*escapeLength:]
		}
	}
}

// escaped is the number of the "\u…" that raw begins with; -1 if it begins with something else.
func escaped(raw []byte) rune {
	if len(raw) < escapeLength || raw[0] != '\\' || raw[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(raw[2:escapeLength]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}
