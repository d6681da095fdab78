package ingest

import (
	"context"
	"sync"
	"time"
)

// limitShared is for how long commands that are begun share a context.
const limitShared = 100 * time.Millisecond

// limit gives commands contexts that end after callWithin, or up to limitShared before. A context and a timer
// for each command would cost a tenth of what the command does.
type limit struct {
	mu    sync.Mutex
	ctx   context.Context //nolint:containedctx // that is what it gives
	until time.Time       // from then on, commands get another
}

// of returns a context for a command that begins now. It ends with calls at the latest, which are the same
// each time.
func (l *limit) of(calls context.Context) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); !now.Before(l.until) {
		ctx, cancel := context.WithTimeout(calls, callWithin)
		context.AfterFunc(ctx, cancel) // it ends by its time, or with calls
		l.ctx, l.until = ctx, now.Add(limitShared)
	}
	return l.ctx
}
