package access

import (
	"context"
	"sync"
	"time"
)

// bond is what callers' rights rest on, such as a key or the rules of a file, for as long as that holds.
// What they began ends with it.
type bond struct {
	why error // what callers are told once it has ended

	mu   sync.Mutex
	gone bool
	held map[*context.CancelCauseFunc]struct{} // contexts that last as long as it does
}

// ended reports whether it holds no more.
func (b *bond) ended() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.gone
}

// hold has a context end with it.
func (b *bond) hold(cancel *context.CancelCauseFunc) (forget func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone {
		(*cancel)(b.why)
		return func() {}
	}
	if b.held == nil {
		b.held = map[*context.CancelCauseFunc]struct{}{}
	}
	b.held[cancel] = struct{}{}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.held, cancel)
	}
}

// end ends it, and what rests on it.
func (b *bond) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gone = true
	for cancel := range b.held {
		(*cancel)(b.why)
	}
}

// lost returns why a principal's credential holds no more; nil: it does.
func (p *Principal) lost(now time.Time) error {
	switch {
	case p.from == nil:
		return nil
	case p.from.ended():
		return p.from.why
	case p.expired(now):
		return p.late()
	}
	return nil
}

// expired reports whether what the principal has shown is over. A certificate is judged when a connection is
// made, and so is what renews it: a connection outlives it.
func (p *Principal) expired(now time.Time) bool {
	return p.Kind != KindCertificate && !p.Expires.IsZero() && !now.Before(p.Expires)
}

// late is the error about an expired credential.
func (p *Principal) late() error {
	if p.Kind == KindToken {
		return errToken
	}
	return errKey
}

// Hold returns a context that also ends when the principal's credential does; now is the node's clock.
// release must be called.
func (p *Principal) Hold(ctx context.Context, now time.Time) (held context.Context, release func()) {
	if p.from == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := func() bool { return false }
	if p.Kind != KindCertificate && !p.Expires.IsZero() {
		stop = time.AfterFunc(p.Expires.Sub(now), func() { cancel(p.late()) }).Stop
	}
	forget := p.from.hold(&cancel)
	return ctx, func() {
		stop()
		forget()
		cancel(nil)
	}
}
