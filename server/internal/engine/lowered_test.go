package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch/sidecar"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/permitrecord"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// yard is a fleet with sidecars at its first node. It holds what they have got and not answered.
type yard struct {
	*zoo
	mu  sync.Mutex
	got []func() // each answers a run
	by  map[string]int
}

// open connects a sidecar that names limits by their keys.
func (y *yard) open(limits map[string]int) {
	y.t.Helper()
	h := sidecar.Hello{Namespace: "default", AppID: "x", ActorTypes: []string{"cat"}}
	for key, most := range limits {
		h.Limits = append(h.Limits, sidecar.Limit{ActorType: "cat", Key: key, Most: most})
	}
	s, err := sidecar.Open(y.nodes[0].hub, y.nodes[0], h, sidecar.Options{})
	if err != nil {
		y.t.Fatal(err)
	}
	go func() {
		for {
			ds, err := s.Receive(context.Background())
			if err != nil {
				return
			}
			y.mu.Lock()
			for _, d := range ds {
				key := d.Target.ConcurrencyKey
				y.by[key]++
				y.got = append(y.got, func() {
					if err := s.Result(d.ID, true, ""); err != nil {
						y.t.Error(err)
					}
					y.by[key]--
				})
			}
			y.mu.Unlock()
		}
	}()
}

// answer answers all runs that sidecars have, and returns how many these were.
func (y *yard) answer() int {
	y.mu.Lock()
	defer y.mu.Unlock()
	got := y.got
	y.got = nil
	for _, answer := range got {
		answer()
	}
	return len(got)
}

// has returns how many runs of a key sidecars have.
func (y *yard) has(key string) int {
	synctest.Wait()
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.by[key]
}

// TestALoweredLimitWhoseHomeIsElsewhere: what runs have kept that wait for the limit of their type is given
// back as soon as the home has heard of the lower number, so that no more than that begin.
func TestALoweredLimitWhoseHomeIsElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const parts = 8
		home := permitrecord.HomeOf(delivery.ActorLimit("default", "cat", "k"), parts)
		y := &yard{by: map[string]int{}}
		fleet := startFleet(t, memory.New(memory.Options{Partitions: parts}), 2,
			func(i int, c *engine.Config) {
				c.AnnounceLimits = func() {
					limits, version := y.nodes[i].OwnLimits()
					table := &message.LimitTable{Node: fmt.Sprint(i), Version: version, Limits: limits}
					go func() {
						time.Sleep(100 * time.Millisecond)
						y.nodes[1-i].HearLimits(table)
					}()
				}
			})
		y.zoo = &zoo{fleet: fleet}
		y.deal(func(p int) int {
			if p == home {
				return 1
			}
			return 0
		})
		y.settled()
		defer time.Sleep(time.Second) // until the last table is there
		defer y.stop()
		y.open(map[string]int{"": 4, "k": 4})
		time.Sleep(time.Second)
		next := 0
		put := func(n int, key string) {
			for ; n > 0; next++ {
				target := carillon.DaprTarget{ActorType: "cat", ActorID: fmt.Sprint(next)}
				if store.PartitionOf(carillon.Key{Namespace: "default", Name: target.Prefix() + "r"}, parts) != home {
					y.putCat(next, key, 0)
					n--
				}
			}
			time.Sleep(time.Second)
		}
		put(4, "") // these have all permits of the type
		put(8, "k")
		if y.has("") != 4 || y.has("k") != 0 {
			t.Fatalf("%d and %d of key k were handed out first", y.has(""), y.has("k"))
		}
		y.open(map[string]int{"": 4, "k": 1})
		time.Sleep(5 * time.Second)
		y.answer()
		for done := 0; done < 8; {
			time.Sleep(time.Second)
			if n := y.has("k"); n > 1 {
				t.Fatalf("%d of key k are in force, %d were before; its limit is 1 by now", n, done)
			}
			n := y.answer()
			if done += n; n == 0 {
				t.Fatalf("%d of 8 have run, and no more begin", done)
			}
		}
		time.Sleep(5 * time.Second)
		if left := grants(t, y.store); len(left) > 0 {
			t.Errorf("permits are still handed out: %v", left)
		}
	})
}
