package realserver

import (
	"context"
	"testing"
	"time"
)

// Eventually waits until f returns nil. What real servers do has no moment that a test could wait for.
func Eventually(t testing.TB, f func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(err)
		}
	}
}
