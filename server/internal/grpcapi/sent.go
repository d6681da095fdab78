package grpcapi

import (
	"sync"
	"time"

	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// arrivalsKept is how many of a stream's requests are remembered: a run that was sent before that many came
// is rare, and old.
const arrivalsKept = 64

// sentTimes says in a worker's messages when they were sent: by this stream's own clock, and by how many
// requests had come by then. A worker knows when it sent those, so it has a lower bound on when the message
// was sent, however long that took to arrive.
type sentTimes struct {
	began time.Time

	mu       sync.Mutex
	received int64
	arrivals [arrivalsKept]time.Time // of the newest requests, number n at n modulo arrivalsKept
}

// newSentTimes begins with the first request, which has just come.
func newSentTimes() *sentTimes {
	s := &sentTimes{began: time.Now()}
	s.arrived()
	return s
}

// arrived takes note of a request that has come.
func (s *sentTimes) arrived() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received++
	s.arrivals[s.received%arrivalsKept] = time.Now()
}

// heard is how many requests had surely come by then.
func (s *sentTimes) heard(by time.Time) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := s.received; n > max(0, s.received-arrivalsKept); n-- {
		if !s.arrivals[n%arrivalsKept].After(by) {
			return n
		}
	}
	return 0
}

// stamp says in a message that its runs were sent after since, which is zero if nothing is known, as it is of
// those of a node that does not say. A message without runs is sent now.
func (s *sentTimes) stamp(m *pb.WorkResponse, since time.Time) {
	switch {
	case len(m.GetRuns()) == 0:
		since = time.Now()
	case since.IsZero():
		return
	}
	m.Heard, m.Clock = s.heard(since), int64(since.Sub(s.began)) // less than 0: a relay does not know better
	if m.GetClock() == 0 {
		m.Clock = -1
	}
}
