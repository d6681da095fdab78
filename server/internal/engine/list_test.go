package engine

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestSideBySide: partitions are read concurrently up to a bound, each once, and no more after an error.
func TestSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, n := range []int{0, 1, readers, 8 * readers, 8*readers + 1} {
			var calls [8*readers + 1]atomic.Int64
			begin := time.Now()
			err := sideBySide(n, func(i int) error { calls[i].Add(1); time.Sleep(time.Second); return nil })
			rounds := (n + readers - 1) / readers
			if took := time.Since(begin); err != nil || took != time.Duration(rounds)*time.Second {
				t.Errorf("%d reads of a second took %v, want %d rounds; %v", n, took, rounds, err)
			}
			for i := range calls {
				if got, want := calls[i].Load() == 1, i < n; got != want {
					t.Errorf("%d reads: read %d was done %d times", n, i, calls[i].Load())
				}
			}
		}
		wrong := errors.New("wrong")
		var calls atomic.Int64
		err := sideBySide(100, func(i int) error {
			calls.Add(1)
			time.Sleep(time.Second)
			if i == 3 {
				return wrong
			}
			return nil
		})
		if !errors.Is(err, wrong) || calls.Load() >= 3*readers {
			t.Errorf("%v after %d reads", err, calls.Load())
		}
	})
}
