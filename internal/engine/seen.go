package engine

import (
	"context"
	"time"
)

// SeenAt is what [WithSeen] has noted; zero if nobody has.
func SeenAt(ctx context.Context) time.Time {
	at, _ := ctx.Value(seenKey{}).(time.Time) // zero if there is none
	return at
}
