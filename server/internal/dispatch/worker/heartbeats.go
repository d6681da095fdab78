package worker

import "github.com/carillonhq/carillon/server/internal/delivery"

// heartbeats is the reporter of a session's heartbeats. A worker cannot tell whether a stale token answers a
// heartbeat or a result. So once the worker has reported a result of an attempt, the session does not pass on
// that a heartbeat of it was stale: the answer to the result counts. It may still be accepted, since an
// attempt in doubt has the same token wherever it runs.
type heartbeats struct{ *Session }

var _ delivery.Confirmer = heartbeats{}

// Stale implements [delivery.Reporter].
func (b heartbeats) Stale(token string) {
	s := b.Session
	s.stream.Lock()
	// A heartbeat makes the session hold the attempt, unless it holds MaxCredits already. Then it cannot know
	// whether a result was reported, and passes the answer on.
	reported := !s.holds(token) && len(s.adopted) < s.options.MaxCredits
	s.stream.Unlock()
	if !reported {
		s.Stale(token)
	}
}
