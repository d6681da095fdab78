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
//	nodes change ─► hold all streams ─► settleFor ─► WatchHosts tells ─► sidecars connect again
//	                      └──────────── settleHold: those that stay get runs again ───┘
//
// All nodes see a change within milliseconds, but only one serves the WatchHosts of a sidecar. It cannot know
// when the others have got their answers, so all wait equally long. A stream that is opened meanwhile is held
// for settleLinger beyond: its sidecar may be among those that are told. One whose WatchHosts was at a node
// that has gone may need more than a second to ask another: settleHold covers most of them.
const (
	settleFor    = 500 * time.Millisecond
	settleLinger = 100 * time.Millisecond
	settleHold   = 3 * time.Second
)

// streams are the streams of sidecars that are open.
type streams struct {
	mu       sync.Mutex
	sessions map[*sidecar.Session]*time.Timer // that ends a hold; nil: it was never held
	watchers int                              // streams of WatchHosts
	told     time.Time                        // when the change is told for which they settle
}

func newStreams() *streams { return &streams{sessions: map[*sidecar.Session]*time.Timer{}} }

// add adds a sidecar's session until remove is called.
func (s *streams) add(session *sidecar.Session) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[session] = nil
	if left := time.Until(s.told); left > 0 {
		s.hold(session, left+settleLinger)
	}
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

// settle holds all sessions and returns when their sidecars may be told of a change; at once if there are no
// streams.
func (s *streams) settle() {
	if s.holdAll() {
		<-time.After(settleFor)
	}
}

// holdAll holds the sessions of now for settleHold. It returns false if no streams are open.
func (s *streams) holdAll() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sessions)+s.watchers == 0 {
		return false
	}
	s.told = time.Now().Add(settleFor)
	for session := range s.sessions {
		s.hold(session, settleHold)
	}
	return true
}

// hold holds a session for d. The caller has the lock.
func (s *streams) hold(session *sidecar.Session, d time.Duration) {
	session.Hold()
	if t := s.sessions[session]; t != nil {
		t.Stop()
	}
	var t *time.Timer
	t = time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.sessions[session] == t { // otherwise another hold has begun, or the session has ended
			session.Resume()
		}
	})
	s.sessions[session] = t
}
