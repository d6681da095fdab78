package ingest

import (
	"context"
	"sync"
)

// slots are for the messages that are under way. A free one goes to the earliest topic that waits, so that a
// later topic gets none as long as earlier ones use them all.
type slots struct {
	mu      sync.Mutex
	free    int
	waiting []chan struct{} // by the topic's place; nil: it does not wait. One goroutine takes for each
}

func newSlots(n, topics int) *slots { return &slots{free: n, waiting: make([]chan struct{}, topics)} }

// take waits for a slot.
func (s *slots) take(ctx context.Context, topic int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	if s.takeFreeLocked() {
		s.mu.Unlock()
		return nil
	}
	given := make(chan struct{})
	s.waiting[topic] = given
	s.mu.Unlock()
	select {
	case <-given:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting[topic] == given {
		s.waiting[topic] = nil
		return ctx.Err()
	}
	s.giveLocked() // it was given one meanwhile
	return ctx.Err()
}

// takeFree takes a slot if one is free.
func (s *slots) takeFree() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takeFreeLocked()
}

func (s *slots) takeFreeLocked() bool {
	if s.free == 0 {
		return false
	}
	s.free--
	return true
}

// give gives a slot back.
func (s *slots) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.giveLocked()
}

func (s *slots) giveLocked() {
	for i, w := range s.waiting {
		if w != nil {
			s.waiting[i] = nil
			close(w)
			return
		}
	}
	s.free++
}
