package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
)

func TestAnUnknownMessageIsRefused(t *testing.T) {
	unknown := struct{ message.Message }{}
	if reply, err := serve(t.Context(), nil, unknown); reply != nil || !errors.Is(err, carillon.Internal) {
		t.Errorf("got %v, %v", reply, err)
	}
}

// TestACallIsSeenAtAStorableTime: others, as a node of another build may send, are as good as none.
func TestACallIsSeenAtAStorableTime(t *testing.T) {
	now := time.Date(2026, 11, 23, 9, 0, 0, 1, time.FixedZone("", 3600))
	for at, want := range map[time.Time]int64{
		now:                           now.UnixNano(),
		{}:                            0,
		time.Unix(1<<40, 0):           0,
		carillon.EarliestTime.Add(-1): 0,
		carillon.LatestTime.Add(1):    0,
		carillon.LatestTime:           carillon.LatestTime.UnixNano(),
	} {
		if got := seen(at); got != want {
			t.Errorf("%v is %d, not %d", at, got, want)
		}
	}
}
