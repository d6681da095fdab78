package ingest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestALimitIsKept: whenever a command begins, its context ends about callWithin later, or with the ingest.
func TestALimitIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, cut := context.WithCancel(t.Context())
		var l limit
		given := map[context.Context]bool{}
		for range 1000 {
			ctx := l.of(calls)
			given[ctx] = true
			end, _ := ctx.Deadline()
			if left := time.Until(end); ctx.Err() != nil || left > callWithin || left < callWithin-limitShared {
				t.Fatalf("a command has %v: %v", left, ctx.Err())
			}
			<-time.After(limitShared / 10)
		}
		if len(given) > 110 {
			t.Errorf("1000 commands in 10 s have %d contexts", len(given))
		}
		<-time.After(callWithin / 2)
		last := l.of(calls)
		cut()
		if last.Err() == nil {
			t.Error("a context has not ended with the ingest")
		}
		if last = l.of(calls); last.Err() == nil {
			t.Error("a command begins after the ingest has ended")
		}
	})
}
