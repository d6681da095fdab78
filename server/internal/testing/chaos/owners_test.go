package chaos_test

import (
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/chaos"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// TestAnObserverOfWhatMayBeStale puts a claim as early as the store may have kept it to itself.
func TestAnObserverOfWhatMayBeStale(t *testing.T) {
	const stale = time.Minute
	s := memory.New(memory.Options{Partitions: 1})
	var mu sync.Mutex
	var from, to time.Time
	o := chaos.Observe(s, stale, func(f, at time.Time, _, now store.Owner) {
		mu.Lock()
		defer mu.Unlock()
		if now.Node == "a" {
			from, to = f, at
		}
	})
	defer func() { must(t, o.Close()) }()
	for looked := false; !looked; {
		_, at, err := o.Owners()
		must(t, err)
		looked = !at.IsZero()
	}
	began := time.Now()
	_, err := s.Leaser().Claim(t.Context(), "a", []int{0}, time.Hour)
	must(t, err)
	claimed := time.Now()
	for noted := false; !noted; {
		mu.Lock()
		noted = !to.IsZero()
		mu.Unlock()
	}
	if latest := claimed.Add(-stale); from.After(latest) || to.Before(began) {
		t.Errorf("claimed between %v and %v, and noted between %v and %v; want from %v at the latest",
			began, claimed, from, to, latest)
	}
	if _, at, err := o.Owners(); err != nil || at.After(time.Now().Add(-stale)) {
		t.Errorf("the owners are as of %v: %v", at, err)
	}
}
