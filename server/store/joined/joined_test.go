package joined_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/carillonhq/carillon/server/store/joined"
)

// TestAnAnswerIsNewerThanItsQuestion: callers share requests, and none gets the answer of one that had begun
// before it came.
func TestAnAnswerIsNewerThanItsQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun, written atomic.Int64
		end := make(chan struct{})
		c := joined.New(func() (int64, error) {
			begun.Add(1)
			seen := written.Load()
			<-end
			return seen, nil
		})
		var all sync.WaitGroup
		ask := func(least int64) {
			all.Go(func() {
				if got, err := c.Wait(t.Context()); err != nil || got < least {
					t.Errorf("%d, %v; %d was there before", got, err, least)
				}
			})
		}
		ask(0)
		synctest.Wait()
		written.Store(1)
		for range 50 {
			ask(1)
		}
		synctest.Wait()
		if begun.Load() != 1 {
			t.Errorf("%d requests are under way", begun.Load())
		}
		close(end)
		all.Wait()
		c.Close()
		if begun.Load() != 2 {
			t.Errorf("%d requests for 51 callers, want 2", begun.Load())
		}
	})
}
