package engine_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
)

// TestATenantAtItsQuotaAsksSeldom: however many puts are refused, all partitions are asked once in a second.
func TestATenantAtItsQuotaAsksSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const seconds = 10
		f := quotaFleet(t, carillon.Quotas{Jobs: 1})
		if _, err := routePut(context.Background(), f, shopJob(0)); err != nil {
			t.Fatal(err)
		}
		var c counts
		f.intercept(c.see)
		until := time.Now().Add(seconds * time.Second)
		var calls sync.WaitGroup
		for i := range 8 {
			calls.Go(func() {
				for time.Now().Before(until) {
					if _, err := routePut(context.Background(), f, shopJob(1+i)); !errors.Is(err, carillon.ResourceExhausted) {
						t.Error(err)
						return
					}
				}
			})
		}
		calls.Wait()
		asked := map[message.Stamp]bool{}
		for _, stamp := range c.seen() {
			asked[stamp] = true
		}
		if most := (seconds + 2) * len(f.all); len(asked) == 0 || len(asked) > most {
			t.Errorf("in %d s partitions were asked %d times, want %d at most", seconds, len(asked), most)
		}
		f.stop()
	})
}
