package telemetry

import (
	"sync"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

// Limit is how many permits of a concurrency key are handed out, and how many there are.
type Limit struct {
	delivery.Limit
	Held, Of int
}

// maxLimits is how many concurrency keys have series of their own. Keys are chosen by users.
const maxLimits = 200

// limits chooses the concurrency keys that have series of their own: those that came first. One that has no
// limit any more makes room.
type limits struct {
	mu    sync.Mutex
	shown map[delivery.Limit]bool
}

func newLimits() *limits { return &limits{shown: map[delivery.Limit]bool{}} }

// bounded returns the limits that have series of their own, and the sum of the others, if there are any, in
// one with the labels [Other].
func (s *limits) bounded(all []Limit) []Limit {
	s.mu.Lock()
	defer s.mu.Unlock()
	still := make(map[delivery.Limit]bool, len(s.shown))
	for _, l := range all {
		if s.shown[l.Limit] {
			still[l.Limit] = true
		}
	}
	s.shown = still
	var out []Limit
	other := Limit{Limit: delivery.Limit{Namespace: Other, Key: Other}}
	for _, l := range all {
		if !s.shown[l.Limit] && len(s.shown) == maxLimits {
			other.Held, other.Of = other.Held+l.Held, other.Of+l.Of
			continue
		}
		s.shown[l.Limit] = true
		out = append(out, l)
	}
	if other.Of > 0 {
		out = append(out, other)
	}
	return out
}
