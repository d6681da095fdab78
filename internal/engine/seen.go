package engine

import (
	"context"
	"time"
)

// SeenAt returns when the first node saw a call; zero if this node is the first.
func SeenAt(ctx context.Context) time.Time {
	at, _ := ctx.Value(seenKey{}).(time.Time) // zero if it is not set
	return at
}
