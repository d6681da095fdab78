package engine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store/memory"
)

// TestAStreamWhosePartitionMoves: the stream goes on with its runs. They are delivered again only if the
// stream ends, or if nothing is heard from the old owner any more.
func TestAStreamWhosePartitionMoves(t *testing.T) {
	for name, c := range map[string]struct {
		then  func(old *engine.Engine, ds []delivery.Delivery)
		after time.Duration
		again int
	}{
		"and which answers": {func(old *engine.Engine, ds []delivery.Delivery) {
			if v := succeed(old, ds); v.accepted != 1 || v.stale != 0 {
				t.Errorf("the result: %d times accepted, %d times stale", v.accepted, v.stale)
			}
		}, time.Minute, 0},
		"and which answers late": {func(old *engine.Engine, ds []delivery.Delivery) {
			time.Sleep(10 * time.Minute)
			if v := succeed(old, ds); v.accepted != 1 || v.stale != 0 {
				t.Errorf("the result: %d times accepted, %d times stale", v.accepted, v.stale)
			}
		}, time.Minute, 0},
		"and which ends late": {func(old *engine.Engine, ds []delivery.Delivery) {
			time.Sleep(10 * time.Minute)
			old.Undelivered([]string{ds[0].Run.Token})
		}, time.Second, 1},
		"and which ends": {func(old *engine.Engine, ds []delivery.Delivery) {
			old.Undelivered([]string{ds[0].Run.Token})
		}, time.Second, 1},
		"whose node is killed": {func(old *engine.Engine, _ []delivery.Delivery) { stop(t, old) },
			31 * time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, streams := startStreams(t, 2, nil)
				putDapr(t, f.nodes[0].Engine, 1)
				time.Sleep(3 * time.Second)
				ds := streams[0].take()
				f.moves(1)
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

// TestAStreamWhosePartitionMovesOn: the stream goes on with its runs even if the partition comes back: its
// node sends heartbeats for them, and the owners in between, which know nothing of the stream, do not.
func TestAStreamWhosePartitionMovesOn(t *testing.T) {
	for name, c := range map[string]struct {
		ways  []int
		ends  func(old *engine.Engine, ds []delivery.Delivery)
		after time.Duration
		again int
	}{
		"back":                      {[]int{1, 0}, nil, 10 * time.Minute, 0},
		"back, twice":               {[]int{1, 0, 1, 0}, nil, 10 * time.Minute, 0},
		"to a third node":           {[]int{1, 2}, nil, 10 * time.Minute, 0},
		"back, and to a third node": {[]int{1, 0, 2}, nil, 10 * time.Minute, 0},
		"back, and it ends": {[]int{1, 0},
			func(old *engine.Engine, ds []delivery.Delivery) { old.Undelivered([]string{ds[0].Run.Token}) },
			time.Second, 1},
		"to a third, and is killed": {[]int{1, 2},
			func(old *engine.Engine, _ []delivery.Delivery) { stop(t, old) }, 31 * time.Second, 1},
		"back and on, and it is killed": {[]int{1, 0, 2},
			func(old *engine.Engine, _ []delivery.Delivery) { stop(t, old) }, 31 * time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, streams := startStreams(t, 3, nil)
				putDapr(t, f.nodes[0].Engine, 1)
				time.Sleep(3 * time.Second)
				ds := streams[0].take()
				for _, to := range c.ways {
					f.moves(to)
				}
				if c.ends != nil {
					c.ends(f.nodes[0].Engine, ds)
				}
				time.Sleep(c.after)
				again := 0
				for _, s := range streams {
					again += len(s.take())
				}
				if again != c.again {
					t.Errorf("delivered again: %d", again)
				}
				if c.again == 0 {
					if v := succeed(f.nodes[0].Engine, ds); v.accepted != 1 || v.stale != 0 {
						t.Errorf("the result: %d times accepted, %d times stale", v.accepted, v.stale)
					}
				}
				for _, n := range f.nodes {
					stop(t, n.Engine)
				}
			})
		})
	}
}

// TestMovesDoNotPutOffAKilledStream: the owners after the first one wait until nothing was heard of the stream
// for 30 s, and not 30 s each.
func TestMovesDoNotPutOffAKilledStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, streams := startStreams(t, 4, nil)
		putDapr(t, f.nodes[0].Engine, 1)
		time.Sleep(3 * time.Second)
		if ds := streams[0].take(); len(ds) != 1 {
			t.Fatalf("%d runs", len(ds))
		}
		f.moves(1)
		stop(t, f.nodes[0].Engine)
		for _, to := range []int{2, 3} {
			time.Sleep(7 * time.Second)
			f.moves(to)
		}
		time.Sleep(14 * time.Second)
		if again := streams[3].take(); len(again) != 0 {
			t.Error("its node was given no time to send heartbeats")
		}
		time.Sleep(3 * time.Second) // 31 s after it was killed
		if again := streams[3].take(); len(again) != 1 || again[0].Run.Attempt != 1 {
			t.Errorf("delivered again: %+v", again)
		}
		for _, n := range f.nodes[1:] {
			stop(t, n.Engine)
		}
	})
}

// TestAStreamWhoseRunIsGone: once the new owner has said so it gets no more heartbeats for the run.
func TestAStreamWhoseRunIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, streams := startStreams(t, 2, nil)
		putDapr(t, f.nodes[0].Engine, 1)
		time.Sleep(3 * time.Second)
		if ds := streams[0].take(); len(ds) != 1 {
			t.Fatalf("%d runs", len(ds))
		}
		f.moves(1)
		var told atomic.Int64
		f.intercept(func(_ int, what message.Message) error {
			if _, ok := what.(message.RelayReports); ok {
				told.Add(1)
			}
			return nil
		})
		if n, err := f.nodes[1].DeleteJobs(t.Context(), "default", "dapr/"); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if told.Load() == 0 {
			t.Error("he was not told")
		}
		told.Store(0)
		time.Sleep(time.Hour)
		synctest.Wait()
		if told.Load() != 0 {
			t.Errorf("he was told %d times more", told.Load())
		}
		for _, n := range f.nodes {
			stop(t, n.Engine)
		}
	})
}

// TestWordsThatAreRefused: what the new owner refuses for good is not relayed again, and the other reports
// sent with it are heard.
func TestWordsThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dropped, asked atomic.Int64
		f, streams := startStreams(t, 2, func(c *engine.Config) {
			c.Events.Dropped = func(n int) { dropped.Add(int64(n)) }
		})
		putDapr(t, f.nodes[0].Engine, 7)
		time.Sleep(3 * time.Second)
		ds := streams[0].take()
		bad := ds[3].Run.Token
		f.intercept(func(_ int, what message.Message) error {
			said, ok := what.(message.RelayReports)
			if !ok {
				return nil
			}
			if asked.Add(1) == 1 {
				return carillon.Errorf(carillon.Unavailable, "", "later")
			}
			for _, r := range said.Reports {
				if r.Token == bad {
					return carillon.Errorf(carillon.InvalidArgument, "reports", "nobody can read this")
				}
			}
			return nil
		})
		f.moves(1)
		v := succeed(f.nodes[0].Engine, ds)
		if v.accepted != 6 || v.stale != 1 || dropped.Load() != 1 {
			t.Errorf("%d accepted, %d refused, %d dropped", v.accepted, v.stale, dropped.Load())
		}
		before := asked.Load()
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if now := asked.Load(); now != before {
			t.Errorf("asked %d times, and then %d times more", before, now-before)
		}
		for _, n := range f.nodes {
			stop(t, n.Engine)
		}
	})
}

// startStreams returns a fleet over one partition, owned by the first node, with a stream at each node.
func startStreams(t *testing.T, nodes int, change func(*engine.Config)) (f *fleet, streams []*stream) {
	t.Helper()
	f = &fleet{t: t, store: memory.New(memory.Options{Partitions: 1}), all: []int{0}}
	for i := range nodes {
		c := engine.Config{Store: f.store, Node: fmt.Sprint("node-", i), Standby: true, Peers: peers{f},
			LeaseTTL: 4 * time.Second}
		if change != nil {
			change(&c)
		}
		e, s := engine.New(c), &stream{}
		if err := e.Start(context.Background(), s); err != nil {
			t.Fatal(err)
		}
		f.nodes, streams = append(f.nodes, &node{Engine: e, t: t}), append(streams, s)
	}
	f.moves(0)
	return f, streams
}

// moves assigns everything to one node.
func (f *fleet) moves(to int) {
	f.t.Helper()
	f.deal(func(int) int { return to })
	f.settled()
}
