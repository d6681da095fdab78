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
	other := Limit{Limit: delivery.Limit{Namespace: Other, Key: Other}}
	out, more := split(s, all, func(l *Limit) delivery.Limit { return l.Limit }, func(l *Limit) {
		other.Held, other.Of = other.Held+l.Held, other.Of+l.Of
	})
	if more {
		out = append(out, other)
	}
	return out
}

// split returns those that have series of their own, and calls add for each of the others, if there are more.
func split[T any](s *limits, all []T, of func(*T) delivery.Limit, add func(*T)) (out []T, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	still := make(map[delivery.Limit]bool, len(s.shown))
	for i := range all {
		if l := of(&all[i]); s.shown[l] {
			still[l] = true
		}
	}
	s.shown = still
	for i := range all {
		l := of(&all[i])
		if !s.shown[l] && len(s.shown) == maxLimits {
			add(&all[i])
			more = true
			continue
		}
		s.shown[l] = true
		out = append(out, all[i])
	}
	return out, more
}
