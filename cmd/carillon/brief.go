package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"unicode"
)

// Most of what a message may repeat of what somebody gave: of one word, and in one line. What refuses a value clips it already; this is for
// what the system and libraries say, which repeat all of it.
const (
	longestWord = 200
	longestLine = 800
)

// brief is a message with long words and lines cut in the middle: what is wrong with them stands at the end.
func brief(message string) string {
	lines := strings.Split(message, "\n")
	for i, line := range lines {
		var b strings.Builder
		for rest := line; rest != ""; {
			word := rest
			if end := strings.IndexFunc(rest, unicode.IsSpace); end >= 0 {
				word = rest[:max(1, end)] // the space itself if the line begins with it
			}
			rest = rest[len(word):]
			b.WriteString(middleOut(word, longestWord))
		}
		lines[i] = middleOut(b.String(), longestLine)
	}
	return strings.Join(lines, "\n")
}

// middleOut is text of at most n characters: of a longer one three quarters from the beginning, and its end.
func middleOut(text string, n int) string {
	if len(text) <= n {
		return text // so it has no more characters either
	}
	r := []rune(text)
	if len(r) <= n {
		return text
	}
	head := n * 3 / 4
	return string(r[:head]) + "…" + string(r[len(r)-(n-head-1):])
}

// visibleText is text with what a terminal would act upon made visible.
func visibleText(text string) string {
	var b strings.Builder
	_, _ = (&visible{w: &b}).Write([]byte(text)) // a Builder takes everything
	return b.String()
}

// fileError says which file cannot be read, and why.
func fileError(flag, file string, err error) error {
	if cause, ok := errors.AsType[*fs.PathError](err); ok {
		err = cause.Err
	}
	return usagef("--%s: %q cannot be read: %s", flag, clip(file, 80), err)
}

// readNamed reads the file that a flag names.
func readNamed(flag, file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fileError(flag, file, err)
	}
	return text, nil
}

// commandError says that a command is not there.
func commandError(command string, err error) error {
	if cause, ok := errors.AsType[*exec.Error](err); ok {
		err = cause.Err
	}
	return usagef("%s", fmt.Sprintf("the command %q cannot be run: %s", clip(command, 80), err))
}
