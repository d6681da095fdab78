package worker

import "github.com/carillonhq/carillon"

// speech reports whether a request is a sign of life. If the worker is direct, one that only moves credits is
// none: its multi-node session moves them by itself.
func (s *Session) speech(req *carillon.WorkRequest) bool {
	return !s.direct || req.Pong || req.Goodbye || len(req.Heartbeats)+len(req.Results) > 0
}

// spoke records a sign of life.
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

// Unheard implements [dispatch.Listener]. A worker that has sent nothing since it was given the attempt gets
// no more runs until it does.
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
