package engine

import (
	"context"
	"sync"
	"time"
)

// shared is what a home of quotas does for all who want it together. Who comes while it is done waits for the
// next time, which sees what happened before the call.
type shared struct {
	of    *quotaHomes
	every time.Duration // least pause between two times
	do    func() error

	mu      sync.Mutex
	next    *sharedTime // that has not begun; nil: nobody wants it
	running bool
	ended   int64 // when the last time did, by the engine's clock
}

// sharedTime is one time that it is done.
type sharedTime struct {
	done chan struct{}
	err  error // once done
}

func newShared(of *quotaHomes, every time.Duration, do func() error) *shared {
	return &shared{of: of, every: every, do: do, ended: -int64(every)}
}

// wait waits for a time that begins after the call, or until ctx has ended.
func (s *shared) wait(ctx context.Context) error {
	s.mu.Lock()
	if s.next == nil {
		s.next = &sharedTime{done: make(chan struct{})}
	}
	t, start := s.next, !s.running
	s.running = true
	s.mu.Unlock()
	if start && !s.of.run(s.loop) {
		s.mu.Lock()
		defer s.mu.Unlock()
		t.err = s.of.partitions.errStopping() // also for those who wait for it since
		close(t.done)
		s.next, s.running = nil, false
		return t.err
	}
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// loop does it until nobody wants it any more.
func (s *shared) loop() {
	for {
		s.mu.Lock()
		pause := s.ended + int64(s.every) - s.of.elapsed()
		s.mu.Unlock()
		if pause > 0 {
			select {
			case <-time.After(time.Duration(pause)):
			case <-s.of.partitions.life.Done():
			}
		}
		s.mu.Lock()
		t := s.next
		s.next = nil
		if t == nil {
			s.running = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		t.err = s.do()
		s.mu.Lock()
		s.ended = s.of.elapsed()
		s.mu.Unlock()
		close(t.done)
	}
}
