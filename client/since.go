package client

import (
	"sync"
	"time"

	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// requestsKept is how many of a stream's requests are remembered.
const requestsKept = 256

// drift is the largest rate at which the clocks of two machines may diverge: 1/1000, twice the rate of a
// clock that is being corrected.
const drift = 1000

// longAgo is longer than any lease.
const longAgo = 10 * 365 * 24 * time.Hour

// lowerBound finds a lower bound, by this process's clock, on when a stream's messages were sent. Each
// message of the node says how many requests of this stream it had received by then, and the time of its own
// clock. A request is received after it was sent. So the node's clock was at zero no earlier than a request
// was sent, minus the clock's time when the request had been received. The greatest of these bounds is kept
// and used to date later messages. Nothing is assumed about how long a message takes.
type lowerBound struct {
	mu   sync.Mutex
	sent int64
	void int64                   // requests up to this one give no bound
	at   [requestsKept]time.Time // when the newest were sent, number n at n modulo requestsKept

	zero time.Time // the node's clock was at zero no earlier
	from time.Time // when that was found
}

// sending records a request that is about to be sent. The first is the hello, with which the node's clock
// starts.
func (b *lowerBound) sending() {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent++
	b.at[b.sent%requestsKept] = now
	if b.sent == 1 {
		b.zero, b.from = now, now
	}
}

// since dates a message that has just arrived; zero if the node does not say when it was sent.
func (b *lowerBound) since(m *pb.WorkResponse, now time.Time) time.Time {
	clock := time.Duration(m.GetClock())
	if clock == 0 {
		return time.Time{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.age(now.Sub(b.from), now.Round(0).Sub(b.from.Round(0)))
	b.from = now
	if n := m.GetHeard(); n > 0 && n <= b.sent && n > max(b.void, b.sent-requestsKept) {
		sent := b.at[n%requestsKept]
		if zero := sent.Add(-clock - now.Sub(sent)/drift); zero.After(b.zero) {
			b.zero = zero
		}
	}
	since := b.zero.Add(clock)
	if since.After(now) { // one of the clocks has stood still, so nothing is known
		b.zero, b.void = now.Add(-longAgo), b.sent
		return b.zero
	}
	return since
}

// age weakens the bound with time. The process's own clock stands still while the machine is suspended; the
// wall clock does not.
func (b *lowerBound) age(passed, wall time.Duration) {
	still := max(0, wall-passed)
	if still > time.Second {
		b.void = b.sent
	}
	b.zero = b.zero.Add(-passed/drift - still)
}
