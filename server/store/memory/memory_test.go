package memory_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
	"github.com/carillonhq/carillon/server/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(testing.TB) store.Store { return memory.New(memory.Options{}) })
}

// The suite again with fewer partitions and a clock of its own.
func TestConformanceWithClock(t *testing.T) {
	var clock testClock
	storetest.RunOptions(t, storetest.Options{
		Open: func(testing.TB) store.Store {
			return memory.New(memory.Options{Partitions: 8, Now: clock.Now,
				MACKey: []byte("0123456789abcdef0123456789abcdef")})
		},
		Advance: func(_ testing.TB, _ store.Store, d time.Duration) { clock.Advance(d) },
		Seeds:   3,
	})
}

// In a bubble the default clock is the bubble's: the suite's waits cost nothing and need no clock of their
// own.
func TestConformanceInBubble(t *testing.T) {
	o := storetest.Options{
		Open:    func(testing.TB) store.Store { return memory.New(memory.Options{}) },
		Advance: func(_ testing.TB, _ store.Store, d time.Duration) { <-time.After(d) },
		Seeds:   1,
	}
	for _, c := range storetest.Cases() {
		if c.Applies(o) {
			t.Run(c.Name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { c.Check(t, o) })
			})
		}
	}
}

func TestClosed(t *testing.T) {
	s := memory.New(memory.Options{Nonce: func() uint64 { return 77 }})
	terms, err := s.Leaser().Claim(t.Context(), "n", []int{0}, time.Hour)
	if err != nil || terms[0].Nonce != 77 {
		t.Fatalf("Claim = %v, %v", terms, err)
	}
	shard, err := s.Shard(0, terms[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := shard.Apply(t.Context(), &store.Batch{}); !errors.Is(err, store.ErrClosed) ||
		store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("Apply to a closed store: %v", err)
	}
}

// A call whose context has ended does nothing; a partition or a cursor that cannot be is refused.
func TestRefusals(t *testing.T) {
	s := memory.New(memory.Options{Partitions: 2})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	l := s.Leaser()
	shard, err := s.Shard(0, store.Term{})
	if err != nil {
		t.Fatal(err)
	}
	held := []store.Holding{{Partition: 0}}
	calls := map[string]func(ctx context.Context, partition int) error{
		"Claim": func(ctx context.Context, p int) error {
			_, err := l.Claim(ctx, "n", []int{p}, time.Hour)
			return err
		},
		"Renew": func(ctx context.Context, p int) error {
			held[0].Partition = p
			_, err := l.Renew(ctx, "n", held, time.Hour)
			return err
		},
		"Release": func(ctx context.Context, p int) error {
			held[0].Partition = p
			return l.Release(ctx, "n", held)
		},
	}
	for name, call := range calls {
		if call(t.Context(), s.Meta().ProvingGround()+1) == nil || call(t.Context(), -1) == nil {
			t.Errorf("%s takes a partition that is not there", name)
		}
		if err := call(ended, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with an ended context: %v", name, err)
		}
	}
	if owners, err := l.Owners(t.Context()); err != nil || len(owners) != 0 {
		t.Errorf("Owners = %v, %v: something was claimed", owners, err)
	}
	for name, err := range map[string]error{
		"Join":    l.Join(ended, store.Member{ID: "n"}, time.Hour),
		"Leave":   l.Leave(ended, "n", 0),
		"Members": second(l.Members(ended)),
		"Owners":  second(l.Owners(ended)),
		"Now":     second(l.Now(ended)),
		"Due":     second(shard.Due(ended, store.DueQuery{Limit: 1})),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s with an ended context: %v", name, err)
		}
	}
	if _, err := shard.Runs(t.Context(), store.RunQuery{Job: new(carillon.Key), After: []byte{0xff},
		Limit: 1}); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("Runs with a made-up cursor: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// testClock is a clock that goes on when told.
type testClock struct {
	mu   sync.Mutex
	gone time.Duration
}

func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC).Add(c.gone)
}

func (c *testClock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone += d
}
