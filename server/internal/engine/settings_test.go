package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// TestSettingsThatCouldNotBeRead: they are read as soon as the store answers. A node that was cut off from
// the store when they were announced does not apply the old ones for as long as after a lost announcement.
func TestSettingsThatCouldNotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := memory.New(memory.Options{Partitions: 8})
		var f *fleet
		cut := &line{Store: s}
		f = startFleet(t, s, 2, func(i int, c *engine.Config) {
			if i == 1 {
				c.Store = cut
			}
			c.Announce = func(ns string) { go func() { _ = f.nodes[1].ReloadNamespace(ctx, ns) }() }
		})
		f.deal(func(int) int { return 0 })
		f.settled()
		put := func() error {
			_, err := f.nodes[1].PutJob(ctx,
				carillon.Job{Namespace: "ns", Name: "a", Schedule: "@every 2s", Target: carillon.WorkerQueue("q"),
					FailurePolicy: retries()})
			return err
		}
		cut.set(failing(false, "small"))
		if _, err := f.nodes[0].PutNamespace(ctx, carillon.Namespace{Name: "ns", Strict: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if err := put(); errors.Is(err, carillon.InvalidArgument) {
			t.Fatal(fmt.Errorf("it knows what it could not read: %w", err))
		}
		cut.set(nil)
		time.Sleep(600 * time.Millisecond)
		if err := put(); !errors.Is(err, carillon.InvalidArgument) {
			t.Errorf("it goes by the settings before: %v", err)
		}
		f.stop()
	})
}

// TestSettingsReachEveryNode: at once if they are announced, within 5 s if the announcement is lost, and at
// the start.
func TestSettingsReachEveryNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := memory.New(memory.Options{Partitions: 8})
		var f *fleet
		lost := false
		f = startFleet(t, s, 3, func(_ int, c *engine.Config) {
			c.Announce = func(ns string) {
				for _, n := range f.nodes {
					if !lost {
						go func() { _ = n.ReloadNamespace(ctx, ns) }()
					}
				}
			}
		})
		f.deal(func(p int) int { return p % 3 })
		f.settled()
		set := func(strict bool) {
			t.Helper()
			if _, err := route(ctx, f, func(n *node) (carillon.Namespace, error) {
				return n.PutNamespace(ctx, carillon.Namespace{Name: "ns", Strict: strict})
			}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		refused := func() (nodes int) {
			for _, n := range f.nodes {
				for i := range 20 {
					_, err := n.PutJob(ctx,
						carillon.Job{Namespace: "ns", Name: fmt.Sprint(i), Schedule: "@every 2s",
							Target:        carillon.WorkerQueue("q"),
							FailurePolicy: retries()})
					if errors.Is(err, carillon.InvalidArgument) {
						nodes++
						break
					}
				}
			}
			return nodes
		}
		if set(true); refused() != 3 {
			t.Errorf("%d of 3 nodes know what was announced", refused())
		}
		lost = true
		if set(false); refused() != 2 {
			t.Errorf("%d of 2 nodes go by what was lost", refused())
		}
		time.Sleep(5 * time.Second)
		if refused() != 0 {
			t.Errorf("%d nodes do not know after 5 s", refused())
		}
		set(true)
		f.nodes = append(f.nodes, startWith(t,
			engine.Config{Store: s, Node: "late", Standby: true, Peers: peers{f}}))
		_, err := f.nodes[3].PutJob(ctx,
			carillon.Job{Namespace: "ns", Name: "a", Schedule: "@every 2s", Target: carillon.WorkerQueue("q"),
				FailurePolicy: retries()})
		if !errors.Is(err, carillon.InvalidArgument) {
			t.Errorf("a node that starts does not know: %v", err)
		}
		f.stop()
	})
}

// spoiled is a store that reads a damaged record of settings in each partition but one, or cannot read
// partitions together.
type spoiled struct {
	*memory.Store
	but     int
	spoil   atomic.Bool
	nothing bool
}

// Gather implements [store.Gatherer].
func (s *spoiled) Gather(ctx context.Context, kind byte, partitions []int) ([][]store.MetaRecord, error) {
	if s.spoil.Load() && s.nothing {
		return nil, store.ErrDamaged
	}
	all, err := s.Store.Gather(ctx, kind, partitions)
	for i := range all {
		if s.spoil.Load() && kind == store.KindNamespace && partitions[i] != s.but {
			all[i] = append(all[i], store.MetaRecord{Kind: kind, Key: "bad", Value: []byte{0xff}})
		}
	}
	return all, err
}

// TestSettingsBesideDamagedOnes: what cannot be read in a partition does not keep the settings of others from
// being in force.
func TestSettingsBesideDamagedOnes(t *testing.T) {
	for _, nothing := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { settingsBesideDamagedOnes(t, nothing) })
	}
}

func settingsBesideDamagedOnes(t *testing.T, nothing bool) {
	t.Helper()
	ctx := context.Background()
	s := memory.New(memory.Options{Partitions: 8})
	bad := &spoiled{Store: s, nothing: nothing, but: store.PartitionOf(carillon.Key{Namespace: "ns"}, 8)}
	f := startFleet(t, s, 2, func(i int, c *engine.Config) {
		if i == 1 {
			c.Store = bad
		}
	})
	f.deal(func(int) int { return 0 })
	f.settled()
	bad.spoil.Store(true)
	if _, err := f.nodes[0].PutNamespace(ctx, carillon.Namespace{Name: "ns", Strict: true}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(6 * time.Second)
	if _, err := f.nodes[1].PutJob(ctx, carillon.Job{Namespace: "ns", Name: "a", Schedule: "@every 2s",
		Target: carillon.WorkerQueue("q"), FailurePolicy: retries()}); !errors.Is(err, carillon.InvalidArgument) {
		t.Errorf("nothing is gathered: %t: it does not go by the settings that can be read: %v", nothing, err)
	}
	f.stop()
}
