// Package loglines keeps the lines of a log, so that a test can look for some of them.
package loglines

import (
	"bytes"
	"slices"
	"strings"
	"sync"
)

// Lines is where a log is written to. Any goroutine may use it.
type Lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements [io.Writer].
func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// With returns the lines that have all of these texts, in order.
func (l *Lines) With(texts ...string) (some []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.b.String()) {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			some = append(some, line)
		}
	}
	return some
}
