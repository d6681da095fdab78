package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

// Limits on what a message may repeat of a user's input: of one word, and of one line. The errors of this
// program's own checks clip it already; these limits are for the errors of the system and of libraries, which
// repeat all of it.
const (
	longestWord = 200
	longestLine = 800
)

// word matches what stands between white space.
var word = regexp.MustCompile(`[^\s\pZ]+`)

// brief shortens long words and lines of a message in the middle: what is wrong with them is at the end.
func brief(message string) string {
	lines := strings.Split(message, "\n")
	for i, line := range lines {
		line = word.ReplaceAllStringFunc(line, func(w string) string { return middleOut(w, longestWord) })
		lines[i] = middleOut(line, longestLine)
	}
	return strings.Join(lines, "\n")
}

// middleOut returns text of at most n characters: of a longer text, three quarters from its beginning, and
// its end.
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

// visibleText returns text in which characters that a terminal would act upon are made visible.
func visibleText(text string) string {
	var b strings.Builder
	_, _ = (&visible{w: &b}).Write([]byte(text)) // a Builder accepts everything
	return b.String()
}

// fileError returns an error about the file of a flag that cannot be read, and why.
func fileError(flag, file string, err error) error { return cannotRead("--"+flag, file, err) }

// cannotRead is fileError for what names the file: a flag or an argument.
func cannotRead(what, file string, err error) error {
	if cause, ok := errors.AsType[*fs.PathError](err); ok {
		err = cause.Err
	}
	return usagef("%s: %q cannot be read: %s", what, clip(file, 80), err)
}

// readNamed reads the file that a flag names.
func readNamed(flag, file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fileError(flag, file, err)
	}
	return text, nil
}

// commandError returns an error about a command that does not exist.
func commandError(command string, err error) error {
	if cause, ok := errors.AsType[*exec.Error](err); ok {
		err = cause.Err
	}
	return usagef("the command %q cannot be run: %s", clip(command, 80), err)
}
