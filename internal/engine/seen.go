package engine

import (
	"context"
	"time"
)

// SeenAt is when the first node has seen a call; zero if that is this one, now.
func SeenAt(ctx context.Context) time.Time {
	at, _ := ctx.Value(seenKey{}).(time.Time) // zero if there is none
	return at
}
