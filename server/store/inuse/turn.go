package inuse

import (
	"context"

	"github.com/carillonhq/carillon/server/store"
)

// Turn is had by one goroutine at a time, and may be given back by another one than took it.
type Turn struct{ taken chan struct{} }

// NewTurn returns a turn that nobody has.
func NewTurn() Turn { return Turn{make(chan struct{}, 1)} }

// Take waits until nobody else has the turn. It ends with ctx, and with [store.ErrClosed] when over is
// closed, which may be nil.
func (t Turn) Take(ctx context.Context, over <-chan struct{}) error {
	select {
	case t.taken <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-over:
		return store.ErrClosed
	}
}

// Give gives the turn back.
func (t Turn) Give() { <-t.taken }
