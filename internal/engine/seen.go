package engine

import (
	"context"
	"time"
)

// seenKey is the key of when a call was seen first.
type seenKey struct{}

// WithSeen notes when the first node has seen a call: relative times in it count from then, however long the call has been on its
// way to its partition.
func WithSeen(ctx context.Context, at time.Time) context.Context {
	return context.WithValue(ctx, seenKey{}, at)
}

// SeenAt is when the first node has seen a call; zero if that is this one, now.
func SeenAt(ctx context.Context) time.Time {
	at, _ := ctx.Value(seenKey{}).(time.Time) // zero if there is none
	return at
}

// seenAt is SeenAt in nanoseconds; 0 is now.
func seenAt(ctx context.Context) int64 {
	if at := SeenAt(ctx); !at.IsZero() {
		return at.UnixNano()
	}
	return 0
}
