package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// yamlLine matches how the library begins an error that is not on the first line of a file.
var yamlLine = regexp.MustCompile(`^line (\d+): `)

// bareColon matches a setting whose value looks like another setting, such as `store: memory:`.
var bareColon = regexp.MustCompile(`^[^#"']*:\s+[^#"'\[{\s][^#"']*:(\s|$)`)

// yamlError adds the line of the file with the fault. The library gives none for the first line, nor for
// characters that YAML does not allow.
func yamlError(file string, text []byte, err error) string {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	line := badCharacterLine(text)
	if m := yamlLine.FindStringSubmatch(message); m != nil {
		message = message[len(m[0]):]
		line, _ = strconv.Atoi(m[1]) // they are digits
	}
	hint := ""
	if lines := strings.Split(string(text), "\n"); line <= len(lines) && bareColon.MatchString(lines[line-1]) {
		hint = "; put a value with a colon into quotes"
	}
	return fmt.Sprintf("%s:%d: %s%s", file, line, message, hint)
}

// badCharacterLine returns the line of the first character that YAML does not allow, 1 if there is none.
func badCharacterLine(text []byte) int {
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 || r != '\t' && r != '\n' && r != '\r' && r != 0x85 &&
			(r < 0x20 || r >= 0x7f && r < 0xa0) {
			return 1 + bytes.Count(text[:at], []byte("\n"))
		}
		at += size
	}
	return 1
}
