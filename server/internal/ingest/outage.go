package ingest

import (
	"log/slog"
	"sync"
)

// outage logs something that does not work when that begins, and when it has ended.
type outage struct {
	log        *slog.Logger
	away, back string

	mu    sync.Mutex
	lasts bool
}

func (o *outage) fails(err error) { o.turn(true, o.away, err) }
func (o *outage) ends()           { o.turn(false, o.back, nil) }

func (o *outage) turn(lasts bool, text string, err error) {
	o.mu.Lock()
	turned := o.lasts != lasts
	o.lasts = lasts
	o.mu.Unlock()
	switch {
	case !turned:
	case err != nil:
		o.log.Warn(text, "error", err)
	default:
		o.log.Info(text)
	}
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
