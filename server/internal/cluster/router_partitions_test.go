package cluster_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/internal/message"
)

// TestRelayFromANodeWithoutStore: they reach the present owner of its partitions, although the node does
// not know who that is.
func TestRelayFromANodeWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a, b := twoNodes(t)
		c := f.start("c")
		f.settle(5*time.Second, a, b, c)
		mine := a.engine.Holdings()
		a.noStore.Store(true)
		sleep(2 * cluster.DefaultTTL)
		for _, h := range mine {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			said := message.RelayReports{Heartbeats: []carillon.Heartbeat{{Token: "of no attempt"}}}
			if heard, err := message.Send(ctx, a.Router(), h.Partition, said); err != nil ||
				!slices.Equal(heard.Stale, []string{"of no attempt"}) {
				t.Errorf("partition %d: %+v %v", h.Partition, heard, err)
			}
			cancel()
		}
		if len(mine) == 0 || len(a.engine.Holdings()) > 0 {
			t.Errorf("it had %d partitions, and has %d", len(mine), len(a.engine.Holdings()))
		}
		a.noStore.Store(false)
		f.settle(10*time.Second, a, b, c)
	})
}
