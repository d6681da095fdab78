package worker

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/stream"
)

// liveness is what is known of a worker's signs of life. The stream's lock guards it.
//
//	alive ── ping ──► asked ── unheard ──► silent
//	  ▲ └──────────────── unheard ───────────▲│
//	  └──────────── a sign of life ◄──────────┘ (or from asked)
type liveness struct {
	heard uint64 // attempts that had been delivered at the last sign of life
	state state
}

type state uint8

const (
	alive  state = iota
	asked        // it was pinged and has not answered
	silent       // it let an attempt end without a sign of life since its delivery
)

// sign records a sign of life after so many deliveries. It reports whether one was waited for.
func (l *liveness) sign(delivered uint64) (awaited bool) {
	awaited = l.state != alive
	l.heard, l.state = delivered, alive
	return awaited
}

// ping records that the worker is asked for a sign of life.
func (l *liveness) ping() { l.state = max(l.state, asked) }

// unheard records that an attempt ended because nothing was heard of it; nil: it is not of this session. It
// reports whether the worker is silent from now on.
func (l *liveness) unheard(a *stream.Attempt) bool {
	if a == nil || a.Nth <= l.heard || l.state == silent {
		return false
	}
	l.state = silent
	return true
}

// isSign reports whether a request is a sign of life. If the worker is direct, one that only moves credits is
// none: its multi-node session moves them by itself.
func (s *Session) isSign(req *carillon.WorkRequest) bool {
	return !s.direct || req.Pong || req.Goodbye || len(req.Heartbeats)+len(req.Results) > 0
}

// alive records a sign of life.
func (s *Session) alive() {
	s.stream.Lock()
	awaited := s.liveness.sign(s.stream.Delivered())
	s.stream.Unlock()
	if awaited {
		s.registration.Heard()
	}
}

// Unheard implements [dispatch.Listener]. A worker that has sent nothing since it was given the attempt gets
// no more runs until it does.
func (s *Session) Unheard(token string) {
	s.stream.Lock()
	turned := s.stream.Open() && s.liveness.unheard(s.stream.Held(token))
	if turned {
		s.out.ping = true
		s.announce()
	}
	s.stream.Unlock()
	if turned {
		s.registration.Silence(s.isSilent)
	}
}

// isSilent is called under the hub's lock.
func (s *Session) isSilent() (is bool) {
	s.stream.Look(func() { is = s.liveness.state == silent })
	return is
}

// Ping implements [dispatch.Listener].
func (s *Session) Ping() {
	s.stream.Lock()
	defer s.stream.Unlock()
	if s.stream.Open() {
		s.liveness.ping()
		s.out.ping = true
		s.announce()
	}
}
