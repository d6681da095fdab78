package main

import (
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"
)

// runLines prints one line for each attempt, as they come.
type runLines struct {
	mu sync.Mutex
	w  io.Writer
}

// runLine is one attempt.
type runLine struct {
	job     string
	attempt int
	late    time.Duration
	target  string
	data    string
	err     error // nil: it succeeded
}

const runFormat = "%-12s  %-26s  %-7s  %-9s  %-7s  %s\n"

func (l *runLines) heading() {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, runFormat, "TIME", "JOB", "ATTEMPT", "LATE", "TARGET", "WHAT")
}

func (l *runLines) print(r runLine) {
	what := "done " + clip(r.data, 60)
	if r.err != nil {
		what = "failed: " + r.err.Error()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, runFormat, time.Now().UTC().Format("15:04:05.000"), r.job, strconv.Itoa(r.attempt),
		lateText(r.late), r.target, what)
}

// lateText formats a lateness in a unit that fits.
func lateText(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
	}
	return d.Round(time.Second).String()
}
