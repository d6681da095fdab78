package cluster

import (
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

// successors are the members to which a leaving node may hand partitions: those that have said that they
// stay. Another node may have been told to end a moment ago, and the store does not know it yet. One that has
// not answered for as long as it counts as living is assumed to stay, since the store knows that it lives.
type successors struct {
	mu     sync.Mutex
	stays  map[uint64]bool          // by nonce: what the member has answered
	silent map[uint64]time.Duration // by nonce: since when it has not answered
}

func newSuccessors() *successors {
	return &successors{stays: map[uint64]bool{}, silent: map[uint64]time.Duration{}}
}

// unknown returns the other members that might own partitions and have not said that they stay.
func (s *successors) unknown(members []store.Member, me string) []store.Member {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(members), func(m store.Member) bool {
		return m.ID == me || m.Capacity == 0 || s.stays[m.Nonce]
	})
}

// stay reports whether a member has said that it stays, or is assumed to.
func (s *successors) stay(nonce uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stays[nonce]
}

// record takes what the members that were asked have said, by id.
func (s *successors) record(asked []store.Member, said map[string]Status, now, life time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range asked {
		status, answered := said[m.ID]
		since, before := s.silent[m.Nonce]
		switch {
		case answered && status.Nonce == m.Nonce:
			delete(s.silent, m.Nonce)
			s.stays[m.Nonce] = !status.Leaving
		case !before:
			s.silent[m.Nonce] = now
		case now-since >= life:
			s.stays[m.Nonce] = true
		}
	}
}
