package httptarget

import (
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
)

// host is the consumer of one queue: a host of a namespace.
type host struct {
	target       *Target
	subscription *dispatch.Subscription

	mu      sync.Mutex
	limit   int           // concurrent requests
	round   int           // answers since the limit last changed
	slowed  time.Time     // when the limit was last halved
	pause   time.Duration // the last pause chosen without a Retry-After; 0 since another answer came
	until   time.Time     // deliveries pause until then
	resumer *time.Timer
	reading int       // deliveries that hold a slot while they wait for their payload
	turn    time.Time // when the next delivery that is refused because of them comes back
}

// beginReading returns nil if a delivery may hold its slot while it waits for its payload. At most half of
// the slots are held so: runs whose payload comes with them have the others, however slow payloads are. It
// returns [busy] otherwise: as many come back in [busyPause] as there are slots, those that are refused
// longest ago first, so that thousands do not go through the store of the jobs again and again.
func (h *host) beginReading(now time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	slots := max(1, h.limit/2)
	if h.reading < slots {
		h.reading++
		return nil
	}
	pause := min(max(busyPause, h.turn.Sub(now)), lastBusyPause)
	h.turn = now.Add(pause + busyPause/time.Duration(slots))
	return busy(pause)
}

func (h *host) endReading() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reading--
}

// Deliver implements [dispatch.Consumer].
func (h *host) Deliver(ds []delivery.Delivery) bool { return h.target.start(h, ds) }

// Cancel implements [dispatch.Consumer].
func (h *host) Cancel(token string) { h.target.cancel(token) }

// done frees the slot of a request that began at start. slow: the host asked for fewer requests, after for
// how long.
func (h *host) done(start time.Time, answered, slow bool, after time.Duration) {
	again := 1
	if slow {
		again += h.slowDown(start, time.Now(), after)
		h.subscription.Hold(h.held)
	} else if answered {
		again += h.speedUp()
	}
	h.subscription.Done(1, again)
}

// slowDown halves the limit, once for all requests that were under way together, and starts or extends the
// pause. It returns the change of the limit.
func (h *host) slowDown(start, now time.Time, after time.Duration) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	change := 0
	if start.After(h.slowed) {
		half := max(1, h.limit/2)
		change = half - h.limit
		h.limit, h.round, h.slowed = half, 0, now
		h.pause = min(max(firstPause, 2*h.pause), lastPause)
	}
	if after == 0 {
		after = h.pause
	}
	if until := now.Add(min(after, MaxPause)); until.After(h.until) {
		h.until = until
		if h.resumer == nil {
			h.resumer = time.AfterFunc(until.Sub(now), func() { h.subscription.Hold(h.held) })
		} else {
			h.resumer.Reset(until.Sub(now))
		}
	}
	return change
}

// held reports whether deliveries to the host still pause.
func (h *host) held() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Before(h.until)
}

// PausedUntil implements [dispatch.Pausing].
func (h *host) PausedUntil() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until
}

// speedUp raises the limit by one after a full round of answers. It returns the change of the limit.
func (h *host) speedUp() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pause = 0
	if h.limit >= h.target.options.HostLimit {
		return 0
	}
	if h.round++; h.round < h.limit {
		return 0
	}
	h.limit++
	h.round = 0
	return 1
}
