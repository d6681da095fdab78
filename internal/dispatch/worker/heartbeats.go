package worker

import "github.com/carillonhq/carillon/internal/partition"

// heartbeats hears what becomes of a session's heartbeats. A worker cannot tell whether a token is called stale for a heartbeat or for a
// result. So the session keeps the refusal of a heartbeat to itself once the worker has reported a result of that attempt: the answer to
// the result says what counts, and it may be accepted, as an attempt in doubt has the same token wherever it runs.
type heartbeats struct{ *Session }

var _ partition.Confirmer = heartbeats{}

// Stale implements [partition.Reporter].
func (b heartbeats) Stale(token string) {
	s := b.Session
	s.mu.Lock()
	// A heartbeat has made the session hold the attempt, unless it holds its most already: then nothing is known, and the refusal is told.
	reported := s.held[token] == nil && s.adopted < s.options.MaxCredits
	s.mu.Unlock()
	if !reported {
		s.Stale(token)
	}
}
