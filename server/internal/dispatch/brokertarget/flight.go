package brokertarget

import (
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

// flight is an attempt in flight.
type flight struct {
	queue    *queue
	delivery delivery.Delivery
	began    time.Time // when it was delivered
	deadline time.Time // of the attempt
	outage   int       // of the queue, when it was delivered; guarded by the queue's lock

	mu        sync.Mutex
	given     bool // to the client
	cancelled bool
	over      bool
	onEnd     func() // called once it is over
	outcome   outcome
}

// outcome is what became of an attempt.
type outcome struct {
	report    *delivery.Report // nil: none
	unsent    string           // why nothing was sent; "": it was, or it is not known
	ours      bool             // that is a matter of this node, not of the broker
	taken     bool             // the broker has acknowledged it
	late      bool             // its time was over, and the broker may have it
	cancelled bool
}

// give marks a flight as given to the client; false: it is over, and must not be given.
func (f *flight) give() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.given = !f.over
	return f.given
}

// hold notes that the flight has some of the budget of payloads.
func (f *flight) hold(b *budget, n int64) { f.whenOver(func() { b.give(n) }) }

// whenOver has g called when the flight is over.
func (f *flight) whenOver(g func()) {
	f.mu.Lock()
	if f.over {
		f.mu.Unlock()
		g()
		return
	}
	before := f.onEnd
	f.onEnd = func() {
		if before != nil {
			before()
		}
		g()
	}
	f.mu.Unlock()
}

// finishUngiven ends a flight that the client does not have.
func (f *flight) finishUngiven(o outcome) {
	f.mu.Lock()
	if f.given {
		f.mu.Unlock()
		return
	}
	f.end(o)
}

// cancel ends a flight that the client does not have. What it has is reported to nobody.
func (f *flight) cancel() {
	f.mu.Lock()
	f.cancelled = true
	if f.given {
		f.mu.Unlock()
		return
	}
	f.end(outcome{})
}

// finish ends a flight, once.
func (f *flight) finish(o outcome) {
	f.mu.Lock()
	f.end(o)
}

// end ends a flight, once. f.mu is held, and free afterwards.
func (f *flight) end(o outcome) {
	if f.over {
		f.mu.Unlock()
		return
	}
	f.over = true
	o.cancelled = f.cancelled
	f.outcome = o
	end := f.onEnd
	f.mu.Unlock()
	if end != nil {
		end()
	}
	f.queue.settleLater(f)
}
