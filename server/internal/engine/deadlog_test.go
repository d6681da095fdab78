package engine

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements [io.Writer].
func (x *lines) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.text.Write(p)
}

// take returns what was written since the last call.
func (x *lines) take() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	defer x.text.Reset()
	return x.text.String()
}

// dead returns runs of which every second one is dead.
func dead(from, to int) (runs []store.RunRecord) {
	for i := from; i < to; i++ {
		r := store.RunRecord{Key: carillon.Key{Namespace: "ns", Name: fmt.Sprint("job", i)}, Attempt: 3,
			Status: carillon.RunDead, Errors: []carillon.AttemptError{{Message: "the first"},
				{Message: strings.Repeat("ä", 150)}}}
		runs = append(runs, r, store.RunRecord{Key: r.Key, Status: carillon.RunSucceeded})
	}
	return runs
}

// TestEveryDeadRunIsInTheLogOnce: by its own line or in a count, however they come, and a flood of them does
// not fill the log.
func TestEveryDeadRunIsInTheLogOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text lines
		l := deadLog{log: slog.New(slog.NewTextHandler(&text, nil))}
		says := func(lines int, more ...int) {
			t.Helper()
			got := text.take()
			if n := strings.Count(got, `"a run is dead: `); n != lines {
				t.Errorf("%d lines, want %d:\n%s", n, lines, got)
			}
			for _, n := range more {
				if !strings.Contains(got, fmt.Sprintf("than have a line\" runs=%d\n", n)) {
					t.Errorf("not %d more:\n%s", n, got)
				}
			}
			if n := strings.Count(got, "than have a line"); n != len(more) {
				t.Errorf("%d counts, want %d:\n%s", n, len(more), got)
			}
		}
		pass := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		l.note(dead(0, 3))
		says(3)
		pass(deadWindow - time.Second)
		l.note(dead(3, 1003))
		says(7)
		pass(time.Second)
		says(0, 993)
		l.note(dead(1003, 1004))
		says(1)
		pass(deadWindow)
		for i := range 30 { // one a second
			l.note(dead(i, i+1))
			pass(time.Second)
		}
		says(30)
		l.note(dead(0, 11))
		l.flush() // at the end of the engine
		says(10, 1)
		pass(time.Hour)
		says(0)
	})
}

// TestLineOfADeadRun names the run and the beginning of its last error.
func TestLineOfADeadRun(t *testing.T) {
	var text lines
	l := deadLog{log: slog.New(slog.NewTextHandler(&text, nil))}
	runs := dead(7, 8)
	l.note(runs)
	got := text.take()
	for _, want := range []string{" namespace=ns job=job7 run=" + runs[0].ID.String(), " attempts=3 ",
		strings.Repeat("ä", 100) + "…\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nlacks %s", got, want)
		}
	}
}
