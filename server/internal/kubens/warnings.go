package kubens

import (
	"sync"
	"time"
)

// warnAgain is after how long a warning about what is still wrong is given again.
const warnAgain = 10 * time.Minute

// warnings keeps a warning from being given at each attempt.
type warnings struct {
	mu    sync.Mutex
	given map[string]time.Time
}

// due reports whether to warn about something now.
func (w *warnings) due(about string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last, ok := w.given[about]; ok && time.Since(last) < warnAgain {
		return false
	}
	if w.given == nil {
		w.given = map[string]time.Time{}
	}
	w.given[about] = time.Now()
	return true
}

// over says that it is not wrong any more.
func (w *warnings) over(about string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.given, about)
}
