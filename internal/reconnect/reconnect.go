// Package reconnect paces attempts to connect to a node, and others that fail while something is away: the
// wait between them doubles up to a bound, and is random in part, so that many do not come back at the same
// moment.
package reconnect

import (
	"context"
	"math/rand/v2"
	"time"
)

// Bounds of the wait, and of one attempt.
const (
	First   = 50 * time.Millisecond
	Last    = 5 * time.Second
	timeout = 10 * time.Second
)

// Backoff is how long to wait before an attempt, at most; at least half of it. Zero: it is made at once.
type Backoff time.Duration

// Next returns the backoff after one more failure.
func (b Backoff) Next() Backoff { return min(Backoff(Last), max(Backoff(First), 2*b)) }

// Lost returns the backoff after the loss of a connection. One that lasted makes up for the failures before
// it.
func (b Backoff) Lost(lasted time.Duration) Backoff {
	if lasted > Last {
		b = 0
	}
	return b.Next()
}

// Wait waits as long as the backoff says, or until ctx ends.
func (b Backoff) Wait(ctx context.Context) error {
	pause := time.NewTimer(time.Duration(b/2 + rand.N(b/2+1)))
	defer pause.Stop()
	select {
	case <-pause.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Connect waits as long as the backoff says, then makes one attempt. ctx ends both.
func Connect[T any](ctx context.Context, b Backoff,
	connect func(context.Context) (T, error)) (connected T, err error) {
	if err := b.Wait(ctx); err != nil {
		return connected, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return connect(ctx)
}
