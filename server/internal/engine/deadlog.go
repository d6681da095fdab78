package engine

import (
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// deadLog logs a line for each run that is dead, once that is durable. Of a flood of them it logs the first
// deadLines, and at the end of deadWindow how many more there were: what is wrong with one is often wrong
// with all, and each is in the history.
type deadLog struct {
	log   *slog.Logger
	mu    sync.Mutex
	until time.Time // end of the window
	lines int       // logged in the window
	more  int       // not logged in the window
	timer *time.Timer
}

// Bounds of a deadLog.
const (
	deadLines  = 10
	deadWindow = 10 * time.Second
	deadError  = 200 // bytes of the error in a line
)

// note logs those of the runs that are dead.
func (l *deadLog) note(runs []store.RunRecord) {
	for i := range runs {
		if r := &runs[i]; r.Status == carillon.RunDead {
			l.add(r)
		}
	}
}

func (l *deadLog) add(r *store.RunRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); !now.Before(l.until) && l.more == 0 {
		l.until, l.lines = now.Add(deadWindow), 0
	}
	if l.lines < deadLines {
		l.lines++
		l.log.Warn("a run is dead: nothing more is tried until it is redriven", "namespace", r.Key.Namespace,
			"job", r.Key.Name, "run", r.ID.String(), "attempts", r.Attempt, "error", lastError(r))
		return
	}
	if l.more++; l.timer == nil {
		l.timer = time.AfterFunc(time.Until(l.until), l.flush)
	}
}

// flush logs how many dead runs had no line of their own, and begins a new window.
func (l *deadLog) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	if l.more > 0 {
		l.log.Warn("more runs are dead than have a line", "runs", l.more)
	}
	l.until, l.more = time.Time{}, 0
}

// lastError returns the beginning of the error of the run's last attempt; empty if it has none.
func lastError(r *store.RunRecord) string {
	if len(r.Errors) == 0 {
		return r.Reason
	}
	text := r.Errors[len(r.Errors)-1].Message
	if len(text) > deadError {
		text = strings.ToValidUTF8(text[:deadError], "") + "…"
	}
	return text
}
