package engine_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/carillonhq/carillon/server/internal/message"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/permitrecord"
	"github.com/carillonhq/carillon/server/store/memory"
)

// TestPermitsAreAskedOfTheirHome: a question that no pool asks is refused before it reaches the home.
func TestPermitsAreAskedOfTheirHome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, memory.New(memory.Options{Partitions: 4}), 1, nil)
		f.deal(func(int) int { return 0 })
		f.settled()
		key := delivery.Limit{Namespace: "default", Key: "k"}
		home := permitrecord.HomeOf(key, 4)
		asks := []message.PermitRequest{{Limit: key}}
		for name, c := range map[string]struct {
			p, from int
			asks    []message.PermitRequest
			want    carillon.Kind
		}{
			"its home":                 {home, 1, asks, 0},
			"another partition":        {(home + 1) % 4, 1, asks, carillon.InvalidArgument},
			"for a partition below 0":  {home, -1, asks, carillon.InvalidArgument},
			"for a partition too high": {home, 4, asks, carillon.InvalidArgument},
			"too much":                 {home, 1, slices.Repeat(asks, 4097), carillon.InvalidArgument},
		} {
			_, err := message.Send(context.Background(), f.nodes[0], c.p,
				message.RequestPermits{From: message.Asker{Partition: c.from}, Requests: c.asks})
			if carillon.KindOf(err) != c.want {
				t.Errorf("%s: %v", name, err)
			}
		}
		f.stop()
	})
}

// TestPermitsAreNotSentToANodeThatIsAlone: it counts them itself.
func TestPermitsAreNotSentToANodeThatIsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New(memory.Options{Partitions: 1}))
		_, asked := message.Send(context.Background(), n, 0, message.RequestPermits{})
		_, told := message.Send(context.Background(), n, 0, message.DeliverPermits{})
		for _, err := range []error{asked, told} {
			if carillon.KindOf(err) != carillon.FailedPrecondition {
				t.Errorf("got %v", err)
			}
		}
		n.stop()
	})
}

// TestPermitsAreForTheOwnerAlone: a node that does not own the partition says so.
func TestPermitsAreForTheOwnerAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, memory.New(memory.Options{Partitions: 1}), 1, nil)
		if _, err := message.Send(context.Background(), f.nodes[0], 0,
			message.DeliverPermits{}); carillon.KindOf(err) != carillon.Unavailable {
			t.Errorf("without a term: %v", err)
		}
		f.deal(func(int) int { return 0 })
		f.settled()
		if _, err := message.Send(context.Background(), f.nodes[0], 0, message.DeliverPermits{}); err != nil {
			t.Errorf("with a term: %v", err)
		}
		f.stop()
	})
}
