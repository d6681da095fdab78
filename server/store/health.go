package store

import (
	"errors"
	"sync"
)

// Health tells, for a store on a server, of the first write that fails and of the first one that succeeds
// after it. It is safe for concurrent use, and tells in the order of what it is told.
type Health struct {
	Failed    func(err error) // may be nil
	Recovered func()          // may be nil
	// Replaced is the error of a call that has found another store than was opened, or none. From then on a
	// write that finds nothing to do there is no success.
	Replaced error

	mu                sync.Mutex
	failing, replaced bool
}

// Note takes how a write ended. To be fenced is no failure.
func (h *Health) Note(err error) {
	outcome := OutcomeOf(err)
	failing, replaced := outcome == NotApplied || outcome == Unknown, err != nil && errors.Is(err, h.Replaced)
	h.mu.Lock()
	defer h.mu.Unlock()
	if failing == h.failing && replaced == h.replaced || h.replaced && !replaced {
		return
	}
	h.failing, h.replaced = failing, replaced
	switch {
	case failing && h.Failed != nil:
		h.Failed(err)
	case !failing && h.Recovered != nil:
		h.Recovered()
	}
}

// Same notes that the store is the one that was opened.
func (h *Health) Same() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.replaced = false
}
