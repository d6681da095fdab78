package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestCallsOfOneInstantComeInOneOrder whoever is first at the door: by when they came, and by their names.
func TestCallsOfOneInstantComeInOneOrder(t *testing.T) {
	var want []string
	for i := range 40 {
		want = append(want, fmt.Sprintf("early %02d", 99-i))
	}
	for i := range 3 {
		want = append(want, fmt.Sprintf("at once %d", i))
	}
	for try := range 50 {
		synctest.Test(t, func(t *testing.T) {
			d := door{actor: actorDoor}
			var mu sync.Mutex
			in := map[int64]string{}
			var all sync.WaitGroup
			enter := func(names []string) {
				for _, i := range rand.Perm(len(names)) {
					all.Go(func() {
						d.enter(names[i])
						mu.Lock()
						defer mu.Unlock()
						in[time.Now().UnixNano()] = names[i]
					})
				}
			}
			for i := range 40 { // a nanosecond apart, against the order of their names
				enter(want[i : i+1])
				time.Sleep(time.Nanosecond)
			}
			enter(want[40:])
			all.Wait()
			var got []string
			for _, at := range slices.Sorted(maps.Keys(in)) {
				got = append(got, in[at])
			}
			if !slices.Equal(got, want) || len(d.queues) != 0 {
				t.Errorf("try %d: %d queues are left, and the order is %v", try, len(d.queues), got)
			}
		})
	}
}
