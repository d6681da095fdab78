package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
)

// TestSharedIsRefusedToAll: once the engine has ended, whoever wants something done together is told so, and
// does not wait for nobody.
func TestSharedIsRefusedToAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := &quotaHomes{partitions: &partitions{}, elapsed: func() int64 { return 0 },
			run: func(func()) bool { return false }}
		s := newShared(of, time.Second, func() error { return nil })
		for range 3 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			if err := s.wait(ctx); !errors.Is(err, carillon.Unavailable) {
				t.Errorf("got %v", err)
			}
			cancel()
		}
	})
}
