package cluster_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestStreamsSettleOnAllNodes: on the one that asks, too; it returns when all have settled, and waits for
// nobody beyond the end of its context.
func TestStreamsSettleOnAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRig(t)
		a, b, c := f.start("a"), f.start("b"), f.start("c")
		f.settle(time.Minute, a, b, c)
		a.SettleAll(t.Context(), "there", false) // nobody has anything to settle
		var mu sync.Mutex
		var asked []string
		stuck := false
		for _, n := range []*node{a, b, c} {
			n.OnSettle(func(ctx context.Context, from string, told bool) {
				mu.Lock()
				defer mu.Unlock()
				if from != "there" {
					t.Errorf("%s settles for %q", n.id, from)
				}
				asked = append(asked, n.id)
				if stuck && !told {
					mu.Unlock()
					<-ctx.Done()
					mu.Lock()
				}
			})
		}
		expect := func(told bool) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			a.SettleAll(ctx, "there", told)
			mu.Lock()
			defer mu.Unlock()
			if slices.Sort(asked); !slices.Equal(asked, []string{"a", "b", "c"}) {
				t.Errorf("settled on %q", asked)
			}
			asked = nil
		}
		expect(false)
		expect(true)
		stuck = true
		start := time.Now()
		expect(false)
		if took := time.Since(start); took != time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
