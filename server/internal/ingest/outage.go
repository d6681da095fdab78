package ingest

import (
	"log/slog"
	"sync"
	"time"
)

// outage logs something that does not work when that begins, and when it has ended.
type outage struct {
	log        *slog.Logger
	away, back string

	mu    sync.Mutex
	lasts bool
	last  string // the last error, while it lasts
	since time.Time
}

func (o *outage) fails(err error) { o.turn(true, o.away, err) }
func (o *outage) ends()           { o.turn(false, o.back, nil) }

func (o *outage) turn(lasts bool, text string, err error) {
	o.mu.Lock()
	turned := o.lasts != lasts
	o.lasts = lasts
	switch {
	case !lasts:
		o.last, o.since = "", time.Time{}
	case turned:
		o.since = time.Now().UTC()
	}
	if err != nil {
		o.last = err.Error()
	}
	o.mu.Unlock()
	switch {
	case !turned:
	case err != nil:
		o.log.Warn(text, "error", err)
	default:
		o.log.Info(text)
	}
}

// why returns the last error, and since when there are such; "" if there is none at present.
func (o *outage) why() (last string, since time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last, o.since
}

// retries logs that commands are tried again: when the first is, and when none is any more.
type retries struct {
	log *slog.Logger

	mu sync.Mutex
	n  int
}

func (r *retries) begin(at string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n++; r.n == 1 {
		r.log.Warn("commands cannot be done at present, and are tried again", "at", at, "error", err)
	}
}

func (r *retries) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n--; r.n == 0 {
		r.log.Info("no command is tried again any more")
	}
}

// held are the messages of a topic that are tried again: their commands, or that they are put into the
// dead-letter topic.
type held struct {
	mu   sync.Mutex
	n    int
	last string // why, of the last of them, as the viewers of the namespace are told
}

// fails notes why one is tried again; begins says that it is so for the first time.
func (h *held) fails(begins bool, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last = why; begins {
		h.n++
	}
}

// end notes that one has ended, done or released.
func (h *held) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.n--; h.n == 0 {
		h.last = ""
	}
}

// why returns why a message is tried again; "" if none is.
func (h *held) why() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}
