package worker

import "github.com/carillonhq/carillon/internal/dispatch"

// An attempt in doubt is delivered again under its token (docs/decisions/0033), perhaps to the session that
// has it already. A session holds each token once, so it must not use a slot for each delivery: the slots of
// the others would never be freed.

// freed is a slot that a session has released.
type freed struct {
	subscription *dispatch.Subscription // nil: no slot, as the attempt was not held, or was adopted
	again        int                    // credits that come back with it
}

// done frees the slot. The session's lock must not be held.
func (f freed) done() {
	if f.subscription != nil {
		f.subscription.Done(1, f.again)
	}
}

// release ends the session's hold on a token. A run that the worker has not received is not sent any more,
// and its credit is unused. The lock is held.
func (s *Session) release(token string) (f freed) {
	a := s.held[token]
	if a == nil {
		return f
	}
	s.forget(token)
	f.subscription = a.subscription
	if !a.sent {
		a.void, f.again = true, 1
	}
	return f
}

// replace makes the session hold a delivered attempt instead of what it held under its token. The lock is
// held.
func (s *Session) replace(token string, a *attempt) freed {
	if before := s.held[token]; before != nil {
		a.had = before.sent || before.had
	}
	f := s.release(token)
	s.held[token] = a
	return f
}
