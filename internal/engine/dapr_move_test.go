package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store/memory"
)

// TestAStreamWhosePartitionMoves goes on with what it has: that is delivered again only if the stream ends, or if nothing is heard of
// the old owner any more.
func TestAStreamWhosePartitionMoves(t *testing.T) {
	for name, c := range map[string]struct {
		then  func(old *engine.Engine, ds []partition.Delivery)
		after time.Duration
		again int
	}{
		"and which answers": {func(old *engine.Engine, ds []partition.Delivery) {
			if v := succeed(old, ds); v.accepted != 1 || v.stale != 0 {
				t.Errorf("the result: %d times accepted, %d times stale", v.accepted, v.stale)
			}
		}, time.Minute, 0},
		"and which answers late": {func(old *engine.Engine, ds []partition.Delivery) {
			time.Sleep(10 * time.Minute)
			if v := succeed(old, ds); v.accepted != 1 || v.stale != 0 {
				t.Errorf("the result: %d times accepted, %d times stale", v.accepted, v.stale)
			}
		}, time.Minute, 0},
		"and which ends late": {func(old *engine.Engine, ds []partition.Delivery) {
			time.Sleep(10 * time.Minute)
			old.Undelivered([]string{ds[0].Run.Token})
		}, time.Second, 1},
		"and which ends": {func(old *engine.Engine, ds []partition.Delivery) {
			old.Undelivered([]string{ds[0].Run.Token})
		}, time.Second, 1},
		"whose node is killed": {func(old *engine.Engine, _ []partition.Delivery) { stop(t, old) }, 31 * time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memory.New(memory.Options{Partitions: 1})
				f := &fleet{t: t, store: s, all: []int{0}}
				var streams []*stream
				for _, node := range []string{"node-0", "node-1"} {
					n, c := startStandby(t, engine.Config{Store: s, Node: node, Standby: true, Peers: peers{f}, LeaseTTL: 4 * time.Second})
					f.nodes, streams = append(f.nodes, n), append(streams, c)
				}
				f.deal(func(int) int { return 0 })
				f.settled()
				putDapr(t, f.nodes[0].Engine, 1)
				time.Sleep(3 * time.Second)
				ds := streams[0].take()
				f.deal(func(int) int { return 1 })
				f.settled()
				time.Sleep(5 * time.Second)
				if again := streams[1].take(); len(again) != 0 {
					t.Fatalf("delivered again at once: %d", len(again))
				}
				c.then(f.nodes[0].Engine, ds)
				time.Sleep(c.after)
				again := streams[1].take()
				if len(again) != c.again {
					t.Fatalf("delivered again: %d", len(again))
				}
				for _, d := range again {
					if d.Run.Attempt != 1 {
						t.Errorf("attempt %d", d.Run.Attempt)
					}
				}
				for _, n := range f.nodes {
					stop(t, n.Engine)
				}
			})
		})
	}
}

// TestWordsThatAreRefused: what the new owner refuses for good is said to him no more, and the rest of what was said with it is heard.
func TestWordsThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{Partitions: 1})
		f := &fleet{t: t, store: s, all: []int{0}}
		dropped := 0
		var streams []*stream
		for _, node := range []string{"node-0", "node-1"} {
			n, c := startStandby(t, engine.Config{Store: s, Node: node, Standby: true, Peers: peers{f}, LeaseTTL: 4 * time.Second,
				Events: engine.Events{Dropped: func(n int) { dropped += n }}})
			f.nodes, streams = append(f.nodes, n), append(streams, c)
		}
		f.deal(func(int) int { return 0 })
		f.settled()
		putDapr(t, f.nodes[0].Engine, 7)
		time.Sleep(3 * time.Second)
		ds := streams[0].take()
		bad, asked := ds[3].Run.Token, 0
		f.between = func(_ int, what any) error {
			said, ok := what.(engine.Said)
			if !ok {
				return nil
			}
			asked++
			if asked == 1 {
				return carillon.Errorf(carillon.Unavailable, "", "later")
			}
			for _, r := range said.Reports {
				if r.Token == bad {
					return carillon.Errorf(carillon.InvalidArgument, "reports", "nobody can read this")
				}
			}
			return nil
		}
		f.deal(func(int) int { return 1 })
		f.settled()
		v := succeed(f.nodes[0].Engine, ds)
		if v.accepted != 6 || v.stale != 1 || dropped != 1 {
			t.Errorf("%d accepted, %d refused, %d dropped", v.accepted, v.stale, dropped)
		}
		before := asked
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if asked != before {
			t.Errorf("asked %d times, and then %d times more", before, asked-before)
		}
		for _, n := range f.nodes {
			stop(t, n.Engine)
		}
	})
}

func startStandby(t *testing.T, c engine.Config) (*node, *stream) {
	t.Helper()
	e, s := engine.New(c), &stream{}
	if err := e.Start(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	return &node{Engine: e, t: t}, s
}
