package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// progress shows on a terminal how far something is, once it has taken more than two seconds. On anything
// else it shows nothing.
type progress struct {
	w        io.Writer
	terminal bool

	mu     sync.Mutex
	stage  string
	begun  time.Time
	shown  bool
	redraw time.Time
}

// patience is how long something may take before progress is shown.
const patience = 2 * time.Second

func newProgress(w io.Writer) *progress {
	return &progress{w: w, terminal: isTerminal(w), begun: time.Now()}
}

// isTerminal reports whether file, which a command reads or writes, is a terminal.
func isTerminal(file any) bool {
	f, ok := file.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull) // a device, too, which services and cron have in place of a terminal
	return err != nil || !os.SameFile(info, null)
}

// show shows how far a stage is; total 0 means unknown.
func (p *progress) show(stage string, done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !p.terminal || now.Sub(p.begun) < patience ||
		(stage == p.stage && now.Sub(p.redraw) < 100*time.Millisecond) {
		return
	}
	p.stage, p.redraw, p.shown = stage, now, true
	fmt.Fprintf(p.w, "\r\x1b[K%s", visibleText(clip(stage, 100)))
	if total > 0 {
		fmt.Fprintf(p.w, " %d/%d (%d %%)%s", done, total, 100*done/total, pace(done, total, now.Sub(p.begun)))
	}
}

// pace says how fast something goes, and how long it takes at that rate.
func pace(done, total int64, took time.Duration) string {
	if done <= 0 || took <= 0 {
		return ""
	}
	rate := float64(done) / took.Seconds()
	left := time.Duration(float64(total-done) / rate * float64(time.Second)).Round(time.Second)
	return fmt.Sprintf(", %.3g/s, %v left", rate, left)
}

// wait shows a stage for as long as it takes; done ends it.
func (p *progress) wait(stage string) (done func()) {
	timer := time.AfterFunc(patience, func() { p.show(stage, 0, 0) })
	return func() {
		timer.Stop()
		p.clear()
	}
}

// clear removes what is shown, so that a result can be printed.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}
