package pebble_test

import (
	"math"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/pebble"
)

// TestDueWhileItMoves moves one record to and fro in the due index while others scan it: every scan finds it
// once, and the mover finds it where it has just put it.
func TestDueWhileItMoves(t *testing.T) {
	const moves = 3000
	s := open(t, "store", pebble.Options{FS: vfs.NewMem(), Partitions: 1})
	sh := own(t, s, 1)[0]
	move := func(due int64) error {
		return sh.Apply(t.Context(), &store.Batch{Puts: []store.Record{job(1, due, benchSpec)}})
	}
	look := func() ([]store.Record, error) {
		return sh.Due(t.Context(), store.DueQuery{Priority: 2, Until: math.MaxInt64, Limit: 10})
	}
	if err := move(990); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var scanners sync.WaitGroup
	for range 3 {
		scanners.Go(func() {
			for {
				if got, err := look(); err != nil || len(got) != 1 {
					t.Errorf("a scan finds %d records, %v", len(got), err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for n := range int64(moves) {
		due := 1000 + n*10 - n%2*305 // to, and fro past the mark
		if err := move(due); err != nil {
			t.Fatal(err)
		}
		if got, err := look(); err != nil || len(got) != 1 || got[0].State.Due != due {
			t.Errorf("move %d: a scan finds %d records, %v", n, len(got), err)
			break
		}
	}
	close(done)
	scanners.Wait()
}
