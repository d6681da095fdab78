package worker

import "github.com/carillonhq/carillon"

// speech reports whether a request is a sign of life. One that moves credits alone is none if the worker's
// credits are spread: a relay moves them by itself.
func (s *Session) speech(req *carillon.WorkRequest) bool {
	return !s.direct || req.Pong || req.Goodbye || len(req.Heartbeats)+len(req.Results) > 0
}

// spoke takes note of a sign of life.
func (s *Session) spoke() {
	s.mu.Lock()
	s.words++
	doubted := s.silent || s.asked
	s.silent, s.asked = false, false
	s.mu.Unlock()
	if doubted {
		s.member.Heard()
	}
}

// Unheard implements [dispatch.Listener]: a worker that has not said a word since it was handed the attempt
// gets no more before it does.
func (s *Session) Unheard(token string) {
	s.mu.Lock()
	a := s.held[token]
	silent := a != nil && a.subscription != nil && a.words == s.words && s.err == nil && !s.goodbye && !s.silent
	if silent {
		s.silent, s.out.ping = true, true
		s.announce()
	}
	s.mu.Unlock()
	if silent {
		s.member.Silence(func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.silent
		})
	}
}

// Ping implements [dispatch.Listener].
func (s *Session) Ping() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && !s.goodbye {
		s.asked, s.out.ping = true, true
		s.announce()
	}
}
