package daprtls

import (
	"context"
	"errors"
)

// Wait returns when there is a first identity; otherwise, when the context ends or after Close, with why
// there is none yet.
func (s *Source) Wait(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	case <-s.done:
		return s.Ready()
	case <-ctx.Done():
		return errors.Join(ctx.Err(), s.Ready())
	}
}
