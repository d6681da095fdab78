package worker

import "github.com/carillonhq/carillon/internal/dispatch"

// An attempt in doubt is delivered again under its token (docs/decisions/0033), perhaps to the session that has it already. That
// holds each token once, so it must not hold a slot for each delivery: nobody would give the others back.

// freed is a slot that a session has let go of.
type freed struct {
	subscription *dispatch.Subscription // nil: there is none, as the attempt was not held, or was adopted
	again        int                    // credits that come back with it
}

// done gives the slot back. The session's lock must not be held.
func (f freed) done() {
	if f.subscription != nil {
		f.subscription.Done(1, f.again)
	}
}

// release ends the session's hold on a token. What the worker has not received stays here, and its credit is not used. The lock
// is held.
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

// replace lets the session hold an attempt that is delivered, instead of what it held under that token. The lock is held.
func (s *Session) replace(token string, a *attempt) freed {
	if before := s.held[token]; before != nil {
		a.had = before.sent || before.had
	}
	f := s.release(token)
	s.held[token] = a
	return f
}
