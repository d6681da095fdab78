package engine_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch/sidecar"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/permitrecord"
	"github.com/carillonhq/carillon/server/store/memory"
)

// zoo is a fleet with sidecars that all name the same limits. It counts what sidecars with a living stream
// have.
type zoo struct {
	*fleet
	dead  []atomic.Bool // by node
	disks []*faulty
	books []*landlord

	mu   sync.Mutex
	rng  *rand.Rand
	at   map[string]int // by key; "" is the whole type
	peak int
	most map[string]int
	done map[string]bool // jobs
}

func (z *zoo) chance(n int) int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.rng.IntN(n)
}

// deadPeers reach nobody once their node is dead.
type deadPeers struct {
	message.Partitions
	dead *atomic.Bool
}

// Ask implements [message.Partitions].
func (d deadPeers) Ask(ctx context.Context, p int, m message.Message) (any, error) {
	if d.dead.Load() {
		return nil, errLost
	}
	return d.Partitions.Ask(ctx, p, m)
}

func startZoo(t *testing.T, seed uint64, nodes int, most map[string]int) *zoo {
	s := memory.New(memory.Options{Partitions: 8})
	z := &zoo{rng: rand.New(rand.NewPCG(seed, 60)), dead: make([]atomic.Bool, nodes), at: map[string]int{},
		most: most, done: map[string]bool{}}
	z.fleet = startFleet(t, s, nodes, func(i int, c *engine.Config) {
		disk := &faulty{Store: s}
		book := &landlord{Store: disk}
		z.disks, z.books = append(z.disks, disk), append(z.books, book)
		c.Store = book
		lines := badLines{peers: c.Peers.(peers)}
		if seed%2 == 1 {
			lines.chance = z.chance
		}
		c.Peers = deadPeers{lines, &z.dead[i]}
		c.AnnounceLimits = func() { z.tell(i) }
	})
	z.deal(func(p int) int { return p % nodes })
	z.settled()
	return z
}

// tell tells the other nodes what sidecars of one have named, each after a while, or never.
func (z *zoo) tell(i int) {
	limits, version := z.nodes[i].OwnLimits()
	table := &message.LimitTable{Node: fmt.Sprint(i), Version: version, Limits: limits}
	for to, n := range z.nodes {
		if to == i || z.dead[i].Load() || z.chance(8) == 0 {
			continue
		}
		late := time.Duration(z.chance(100)) * time.Millisecond
		go func() {
			time.Sleep(late)
			n.HearLimits(table)
		}()
	}
}

// count records that sidecars have got n more runs of a job.
func (z *zoo) count(target *carillon.DaprTarget, n int) {
	z.mu.Lock()
	defer z.mu.Unlock()
	keys := []string{""}
	if target.ConcurrencyKey != "" {
		keys = append(keys, target.ConcurrencyKey)
	}
	for _, key := range keys {
		z.at[key] += n
		if most, limited := z.most[key]; limited && z.at[key] > most {
			z.t.Errorf("%d of key %q are at sidecars, whose limit is %d", z.at[key], key, most)
		}
	}
	z.peak = max(z.peak, z.at[""])
}

func (z *zoo) hello() sidecar.Hello {
	h := sidecar.Hello{Namespace: "default", AppID: "x", ActorTypes: []string{"cat"}}
	for _, key := range slices.Sorted(maps.Keys(z.most)) {
		h.Limits = append(h.Limits, sidecar.Limit{ActorType: "cat", Key: key, Most: z.most[key]})
	}
	return h
}

// live is the life of a sidecar at a node. It ends with the runs that it has then.
func (z *zoo) live(ctx context.Context, i int) {
	n := z.nodes[i]
	s, err := sidecar.Open(n.hub, n, z.hello(), sidecar.Options{})
	if err != nil {
		z.t.Error(err)
		return
	}
	var mu sync.Mutex
	gone := false
	mine := map[uint64]*carillon.DaprTarget{}
	drop := func(id uint64) bool { // the run is not there any more
		mu.Lock()
		defer mu.Unlock()
		target, here := mine[id]
		if delete(mine, id); here {
			z.count(target, -1)
		}
		return here
	}
	for {
		ds, err := s.Receive(ctx)
		if err != nil || z.dead[i].Load() {
			break
		}
		for _, d := range ds {
			mu.Lock()
			mine[d.ID] = d.Target
			z.count(d.Target, 1)
			mu.Unlock()
			go func() {
				time.Sleep(time.Duration(10+z.chance(300)) * time.Millisecond)
				mu.Lock()
				ended := gone
				mu.Unlock()
				if ended || !drop(d.ID) {
					return
				}
				ok := z.chance(5) > 0
				if s.Result(d.ID, ok, "no") == nil && ok {
					z.mu.Lock()
					z.done[d.Run.Job] = true
					z.mu.Unlock()
				}
			}()
		}
	}
	mu.Lock()
	gone = true
	left := slices.Collect(maps.Keys(mine))
	mu.Unlock()
	for _, id := range left {
		drop(id)
	}
	if !z.dead[i].Load() {
		_ = s.Close()
	}
}

// kill ends a node without a word: nothing of it reaches the store, the other nodes or the sidecars.
func (z *zoo) kill(i int) {
	z.dead[i].Store(true)
	z.books[i].set(errLost, false)
	z.disks[i].fail(func(func() error) error { return errLost })
}

// TestALimitOfSidecarsHoldsOverAllNodes: whatever partitions move, streams end and a node is killed, sidecars
// never have more runs of a type, or of a key, than the limit, and all runs succeed.
func TestALimitOfSidecarsHoldsOverAllNodes(t *testing.T) {
	seeds := uint64(10)
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const nodes, jobs, herd = 3, 150, 60
				z := startZoo(t, seed, nodes, map[string]int{"": 6, "k": 1, "l": 2})
				life, over := context.WithCancel(context.Background())
				var sidecars sync.WaitGroup
				lost := make([]context.CancelFunc, nodes)
				for i := range nodes {
					var ctx context.Context
					ctx, lost[i] = context.WithCancel(life)
					sidecars.Go(func() { z.live(ctx, i) })
					sidecars.Go(func() { // others come and go beside the one that stays
						for ctx.Err() == nil {
							ctx, cancel := context.WithTimeout(ctx, time.Duration(100+z.chance(3000))*time.Millisecond)
							z.live(ctx, i)
							cancel()
							time.Sleep(time.Duration(z.chance(2000)) * time.Millisecond)
						}
					})
				}
				synctest.Wait()
				time.Sleep(time.Second)
				for i := range nodes {
					z.tell(i)
				}
				to := func(p int) int { return p % nodes }
				for i := range jobs {
					key, due := []string{"", "k", "l", "free"}[z.chance(4)], time.Duration(z.chance(1000))*time.Millisecond
					z.putCat(i, key, due)
					time.Sleep(time.Duration(z.chance(200)) * time.Millisecond)
					switch i {
					case 30, 50, 70, 110, 130:
						shift := z.chance(nodes)
						before := to
						to = func(p int) int {
							if at := (p + shift) % nodes; !z.dead[at].Load() {
								return at
							}
							return before(p) % (nodes - 1)
						}
						z.deal(to)
					case 90:
						z.kill(nodes - 1)
						lost[nodes-1]()
						to = func(p int) int { return p % (nodes - 1) }
						z.deal(to)
					}
				}
				time.Sleep(time.Minute)
				for i := range herd {
					z.putCat(jobs+i, "free", time.Minute)
				}
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				z.mu.Lock()
				if len(z.done) != jobs+herd || z.at[""] != 0 {
					t.Errorf("%d of %d jobs have run, %d are still at sidecars", len(z.done), jobs+herd, z.at[""])
				}
				if least := 6 - 3*int(seed%2); z.peak < least { // where messages are lost, permits are idle at times
					t.Errorf("never more than %d were at sidecars, and the limit is 6", z.peak)
				}
				z.mu.Unlock()
				z.none()
				over()
				sidecars.Wait()
				z.books[nodes-1].set(nil, false)
				z.disks[nodes-1].fail(nil)
				z.stop()
				time.Sleep(time.Second) // until the last message is there
			})
		})
	}
}

// none checks that nothing is in force and nobody waits.
func (z *zoo) none() {
	z.t.Helper()
	for i, n := range z.nodes {
		for _, t := range n.LimitTallies() {
			if !z.dead[i].Load() && t.InForce+t.Waiting != 0 {
				z.t.Errorf("node %d has %+v", i, t)
			}
		}
	}
	if left := grants(z.t.(*testing.T), z.store); len(left) > 0 {
		z.t.Errorf("permits are still handed out: %v", left)
	}
}

// putCat stores the i-th reminder at the owner of its partition.
func (z *zoo) putCat(i int, key string, due time.Duration) {
	z.t.Helper()
	target := &carillon.DaprTarget{AppID: "x", ActorType: "cat", ActorID: fmt.Sprint(i), ConcurrencyKey: key}
	j := carillon.Job{Name: target.Prefix() + "r", Target: carillon.Target{Dapr: target},
		Due: carillon.In(due), FailurePolicy: carillon.Constant(time.Second)}
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		_, err := route(ctx, z.fleet, func(n *node) (carillon.PutResult, error) { return n.PutJob(ctx, j) })
		cancel()
		if err == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// TestAHomeThatHasNotHeardOfALimit hands nothing out. Who waits is served once it has, at once.
func TestAHomeThatHasNotHeardOfALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tables []*message.LimitTable
		var f *fleet
		f = startFleet(t, memory.New(memory.Options{Partitions: 8}), 2, func(i int, c *engine.Config) {
			c.AnnounceLimits = func() {
				limits, version := f.nodes[i].OwnLimits()
				tables = append(tables, &message.LimitTable{Node: fmt.Sprint(i), Version: version, Limits: limits})
			}
		})
		home := homeOfCats(8)
		f.deal(func(p int) int {
			if p == home {
				return 1
			}
			return 0
		})
		f.settled()
		s, err := sidecar.Open(f.nodes[0].hub, f.nodes[0], sidecar.Hello{Namespace: "default", AppID: "x",
			ActorTypes: []string{"cat"}, Limits: []sidecar.Limit{{ActorType: "cat", Most: 2}}}, sidecar.Options{})
		if err != nil {
			t.Fatal(err)
		}
		z := &zoo{fleet: f}
		for i := range 20 {
			z.putCat(i, "", 0)
		}
		received := func() int {
			ctx, cancel := context.WithTimeout(context.Background(), 0)
			defer cancel()
			synctest.Wait()
			ds, err := s.Receive(ctx)
			if err != nil {
				return 0
			}
			return len(ds)
		}
		time.Sleep(5 * time.Second)
		if n := received(); n != 0 {
			t.Errorf("%d were handed out although the home knows no limit", n)
		}
		f.nodes[1].HearLimits(tables[0])
		time.Sleep(10 * time.Millisecond)
		if n := received(); n != 2 {
			t.Errorf("%d were handed out once the home knows that the limit is 2", n)
		}
		if got := f.nodes[0].LimitTallies(); len(got) != 1 {
			t.Errorf("%+v", got)
		}
		_ = s.Close()
		f.nodes[1].HearLimits(tables[1])
		f.stop()
	})
}

// homeOfCats is the partition that hands out the permits of the type.
func homeOfCats(parts int) int {
	return permitrecord.HomeOf(delivery.ActorLimit("default", "cat", ""), parts)
}
