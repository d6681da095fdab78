package daprapi

import (
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/internal/dispatch/sidecar"
)

// A sidecar that is told that the schedulers have changed closes its streams to all of them at once, and
// connects again. It abandons what it has not answered by then: the app may have been called, and the run is
// delivered again. So nodes let their streams settle before a change is told:
//
//	nodes change ─► hold all streams ─► all answered, or settleMost ─► WatchHosts tells ─► sidecars connect again
//	                      └─────────────── settleHold: those that stay get runs again ───┘
//
// All nodes see a change within milliseconds, but only one serves the WatchHosts of a sidecar. That one waits
// at least settleLeast, so that the others hold their streams too. A sidecar whose WatchHosts was at a node
// that has gone may need more than a second to ask another: settleHold covers most of them.
const (
	settleLeast = 100 * time.Millisecond
	settleMost  = 300 * time.Millisecond
	settleHold  = 2 * time.Second
	settleLook  = 5 * time.Millisecond
)

// streams are the streams of sidecars that are open.
type streams struct {
	mu       sync.Mutex
	sessions map[*sidecar.Session]*time.Timer // that ends a hold; nil: it was never held
	watchers int                              // streams of WatchHosts
}

func newStreams() *streams { return &streams{sessions: map[*sidecar.Session]*time.Timer{}} }

// add adds a sidecar's session until remove is called.
func (s *streams) add(session *sidecar.Session) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[session] = nil
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if t := s.sessions[session]; t != nil {
			t.Stop()
		}
		delete(s.sessions, session)
	}
}

// watch counts a stream of WatchHosts until end is called.
func (s *streams) watch() (end func()) {
	s.count(1)
	return func() { s.count(-1) }
}

func (s *streams) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers += n
}

// watched reports whether streams of WatchHosts are open.
func (s *streams) watched() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watchers > 0
}

// settle holds all sessions and returns when their sidecars may be told of a change. Sessions that are opened
// later are not held: their sidecars have been told.
func (s *streams) settle() {
	if !s.hold() {
		return
	}
	look := time.NewTicker(settleLook)
	defer look.Stop()
	start := time.Now()
	for range look.C {
		waited := time.Since(start)
		if waited >= settleMost || waited >= settleLeast && s.idle() {
			return
		}
	}
}

// hold holds the sessions of now for a while. It returns false if there are none.
func (s *streams) hold() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for session, t := range s.sessions {
		session.Hold()
		if t != nil {
			t.Stop()
		}
		s.sessions[session] = time.AfterFunc(settleHold, session.Resume)
	}
	return len(s.sessions)+s.watchers > 0
}

// idle reports whether the sidecars have answered all that they received.
func (s *streams) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for session := range s.sessions {
		if !session.Idle() {
			return false
		}
	}
	return true
}
