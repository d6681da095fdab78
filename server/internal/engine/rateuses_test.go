package engine_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store/memory"
)

// TestRatesSayWhatTheyHoldBack: how many runs wait, and how many permits are left, of rates in use and of others.
func TestRatesSayWhatTheyHoldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate := carillon.Rate{Count: 2, Period: time.Hour}
		n := startRated(t, memory.New(memory.Options{Partitions: 4}), rate)
		defer n.stop()
		if uses := n.RateUses(); uses != nil {
			t.Errorf("without rates: %+v", uses)
		}
		n.set(carillon.Namespace{RateLimits: map[string]carillon.Rate{"k": rate, "idle": {Count: 7}},
			Quotas: carillon.Quotas{Runs: carillon.Rate{Count: 1, Period: time.Hour, Burst: 50}}})
		n.put(9, "x", "k") // the judge sees no job of such a name: they begin when the rate is gone
		n.put(3, "free", "")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		use := func(key string, left, burst, waiting int) engine.RateUse {
			return engine.RateUse{Namespace: "default", Key: key, Home: true, Left: left, Burst: burst, Waiting: waiting}
		}
		want := []engine.RateUse{use("", 45, 50, 0), use("idle", 7, 7, 0), use("k", 0, 2, 7)}
		if uses := n.RateUses(); !slices.Equal(uses, want) {
			t.Errorf("%+v, want %+v", uses, want)
		}
		n.set(carillon.Namespace{RateLimits: map[string]carillon.Rate{}, Strict: true})
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if uses := n.RateUses(); uses != nil {
			t.Errorf("without rates again: %+v", uses)
		}
	})
}
