package ingest

import (
	"context"
	"testing"
	"testing/synctest"
)

// TestTheEarlierTopicGetsTheNextSlot, however long the later one has waited; and who gives up gets none.
func TestTheEarlierTopicGetsTheNextSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1, 3)
		got := make(chan int, 3)
		take := func(ctx context.Context, topic int) {
			if s.take(ctx, topic) == nil {
				got <- topic
			}
		}
		take(t.Context(), 0)
		<-got
		leaving, leave := context.WithCancel(t.Context())
		go take(t.Context(), 2)
		synctest.Wait()
		go take(t.Context(), 1)
		go take(leaving, 0)
		synctest.Wait()
		leave()
		synctest.Wait()
		for _, want := range []int{1, 2} {
			s.give()
			if topic := <-got; topic != want {
				t.Errorf("topic %d gets a slot, not %d", topic, want)
			}
		}
		s.give()
		if s.free != 1 || s.take(leaving, 0) == nil || s.free != 1 {
			t.Errorf("%d slots are free, not 1", s.free)
		}
	})
}
