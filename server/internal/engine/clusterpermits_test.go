package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon/server/internal/message"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// badLines is a set of peers that lose messages about permits, or their answers, or deliver them again much
// later.
type badLines struct {
	peers
	chance func(n int) int // nil: the lines are good
}

var errLost = carillon.Errorf(carillon.Unavailable, "", "lost")

// Ask implements [message.Partitions].
func (b badLines) Ask(ctx context.Context, p int, m message.Message) (any, error) {
	switch m.(type) {
	case message.RequestPermits, message.DeliverPermits:
		return b.askBadly(ctx, p, m)
	}
	return b.peers.Ask(ctx, p, m)
}

func (b badLines) askBadly(ctx context.Context, p int, m message.Message) (any, error) {
	if b.chance == nil {
		return b.peers.Ask(ctx, p, m)
	}
	switch b.chance(8) {
	case 0:
		return nil, errLost
	case 1:
		if _, err := b.peers.Ask(ctx, p, m); err != nil {
			return nil, err
		}
		return nil, errLost
	case 2:
		late := time.Duration(b.chance(10_000)) * time.Millisecond
		go func() {
			time.Sleep(late)
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 100*time.Millisecond)
			defer cancel()
			_, _ = b.peers.Ask(ctx, p, m) // nobody hears the answer
		}()
	case 3:
		time.Sleep(time.Duration(b.chance(1000)) * time.Millisecond)
	}
	return b.peers.Ask(ctx, p, m)
}

// crowd is a fleet whose workers count how many attempts of a concurrency key they have.
type crowd struct {
	*fleet
	mu      sync.Mutex
	rng     *rand.Rand
	books   []*landlord // of each node
	disks   []*faulty
	inForce map[string]int
	peak    map[string]int
	most    map[string]int
	ran     map[string]bool
	judges  map[string]*rateJudge // of rates, by key
}

func (c *crowd) chance(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.IntN(n)
}

func startCrowd(t *testing.T, seed uint64, s store.Store, nodes int, bad bool, most map[string]int) *crowd {
	c := &crowd{rng: rand.New(rand.NewPCG(seed, 32)), inForce: map[string]int{}, peak: map[string]int{},
		most: most, ran: map[string]bool{}}
	c.fleet = startFleet(t, s, nodes, func(_ int, cfg *engine.Config) {
		disk := &faulty{Store: s}
		book := &landlord{Store: disk}
		c.disks, c.books = append(c.disks, disk), append(c.books, book)
		cfg.Store = book
		b := badLines{peers: cfg.Peers.(peers)}
		if bad {
			b.chance = c.chance
		}
		cfg.Peers = b
		cfg.Announce = func(ns string) { c.announce(ns) }
	})
	c.deal(func(p int) int { return p % nodes })
	c.settled()
	if _, err := route(context.Background(), c.fleet, func(n *node) (carillon.Namespace, error) {
		return n.PutNamespace(context.Background(), carillon.Namespace{ConcurrencyLimits: most})
	}); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	for _, n := range c.nodes {
		n.consumeMany("q", 4, c.handle)
	}
	return c
}

// announce tells all nodes, unless the announcement is lost.
func (c *crowd) announce(ns string) {
	for _, n := range c.nodes {
		go func() { _ = n.ReloadNamespace(context.Background(), ns) }() // a failure heals
	}
}

// handle takes a while.
func (c *crowd) handle(r carillon.Run) *carillon.Result {
	c.count(r, 1)
	time.Sleep(time.Duration(10+c.chance(300)) * time.Millisecond)
	c.count(r, -1)
	return success(r)
}

// count records that an attempt begins or ends. Its key is the first letter of its job's name.
func (c *crowd) count(r carillon.Run, by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := r.Job[:1]
	c.inForce[key] += by
	c.peak[key] = max(c.peak[key], c.inForce[key])
	c.ran[r.Job] = true
	if j := c.judges[key]; by > 0 && j != nil {
		j.begin(c.t)
	}
	if n := c.inForce[key]; n > c.most[key] {
		c.t.Errorf("%d in force of %s, whose limit is %d", n, key, c.most[key])
	}
}

// put stores a job at the owner of its partition, and retries.
func (c *crowd) put(name, key string, due time.Duration) {
	c.t.Helper()
	j := carillon.Job{Name: name, ConcurrencyKey: key, Due: carillon.In(due), Lease: 5 * time.Second,
		Target:        carillon.WorkerQueue("q"),
		FailurePolicy: carillon.Constant(time.Second).WithMaxRetries(20)}
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		_, err := route(ctx, c.fleet, func(n *node) (carillon.PutResult, error) { return n.PutJob(ctx, j) })
		cancel()
		if err == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// cut cuts a node off from the store, or connects it again. Other nodes get its partitions.
func (c *crowd) cut(i int, off bool) {
	var err error
	var fault func(func() error) error
	if off {
		err = errors.New("the store is out of reach")
		fault = func(func() error) error { return err }
	}
	c.books[i].set(err, false)
	c.disks[i].fail(fault)
}

// consumeMany is consume with a goroutine for each run.
func (n *node) consumeMany(queue string, credits int, handle func(carillon.Run) *carillon.Result) {
	n.t.Helper()
	s, err := n.hub.Connect(context.Background(), carillon.Hello{Namespace: "default", Queues: []string{queue}})
	if err != nil {
		n.t.Fatal(err)
	}
	if err := s.Send(context.Background(),
		carillon.WorkRequest{Credits: []carillon.Credit{{Queue: queue, N: credits}}}); err != nil {
		n.t.Fatal(err)
	}
	go func() {
		for {
			msg, err := s.Receive(context.Background())
			if err != nil {
				return
			}
			for _, r := range msg.Runs {
				go func() {
					res := handle(r)
					res.Token, res.RunID = r.Token, r.ID
					_ = s.Send(context.Background(), carillon.WorkRequest{ // the session may be over
						Results: []carillon.Result{*res}, Credits: []carillon.Credit{{Queue: queue, N: 1}}})
				}()
			}
		}
	}()
}

// grants returns what the homes of limits have handed out, by the store.
func grants(t *testing.T, s store.Store) (all []string) {
	for p := range s.Meta().Partitions {
		shard, err := s.Shard(p, store.Term{})
		if err != nil {
			t.Fatal(err)
		}
		small, err := shard.MetaRecords(context.Background(),
			store.MetaQuery{Kind: store.KindAllocation, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range small {
			all = append(all, fmt.Sprintf("home %d: %q", p, r.Key))
		}
	}
	return all
}

// TestALimitOfACluster: through lost messages, partitions that move and nodes that lose the store, there are
// never more attempts in force than the limit, everything runs, and all permits come back.
func TestALimitOfACluster(t *testing.T) {
	seeds := uint64(10)
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			s := memory.New(memory.Options{Partitions: 8})
			nodes := 2 + int(seed%2)
			c := startCrowd(t, seed, s, nodes, seed%3 > 0, map[string]int{"a": 1, "b": 2, "c": 5})
			const jobs, herd = 150, 60
			most := 5
			if seed%3 > 0 {
				most = 3 // where notices are lost, tokens may be on their way while others are used
			}
			for i := range jobs {
				key := []string{"a", "b", "c"}[c.chance(3)]
				c.put(fmt.Sprint(key, i), key, time.Duration(c.chance(1000))*time.Millisecond)
				time.Sleep(time.Duration(c.chance(200)) * time.Millisecond)
				switch i % 40 {
				case 20:
					c.deal(func(p int) int { return (p + i/40 + 1) % nodes })
				case 35:
					c.loseOne(8 * time.Second)
				}
			}
			time.Sleep(time.Minute)
			for i := range herd {
				c.put(fmt.Sprint("c/herd", i), "c", time.Minute)
			}
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			if len(c.ran) != jobs+herd {
				t.Errorf("seed %d: %d of %d jobs have run", seed, len(c.ran), jobs+herd)
			}
			if left := grants(t, s); len(left) > 0 {
				t.Errorf("seed %d: tokens are still handed out: %v", seed, left)
			}
			if c.peak["c"] < most {
				t.Errorf("seed %d: never more than %d of c were in force, whose limit is 5", seed, c.peak["c"])
			}
			c.stop()
		})
	}
}

// TestOneTokenGoesAround: one permit serves many partitions of several nodes, without a pause and in the
// right order.
func TestOneTokenGoesAround(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs, takes, writes = 100, 10 * time.Millisecond, time.Millisecond
		s := &faulty{Store: memory.New(memory.Options{Partitions: 64})}
		f := startFleet(t, s, 3, func(_ int, c *engine.Config) { c.Lanes = 64 })
		f.deal(func(p int) int { return p % 3 })
		f.settled()
		ctx := context.Background()
		put := func(j carillon.Job) {
			j.Target, j.ConcurrencyKey = carillon.WorkerQueue("q"), "one"
			if _, err := route(ctx, f, func(n *node) (carillon.PutResult, error) {
				return n.PutJob(ctx, j)
			}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := route(ctx, f, func(n *node) (carillon.Namespace, error) {
			return n.PutNamespace(ctx, carillon.Namespace{ConcurrencyLimits: map[string]int{"one": 1}})
		}); err != nil {
			t.Fatal(err)
		}
		for _, n := range f.nodes {
			if err := n.ReloadNamespace(ctx, "default"); err != nil {
				t.Fatal(err)
			}
		}
		s.fail(func(apply func() error) error { time.Sleep(writes); return apply() })
		var mu sync.Mutex
		var order []string
		inForce := 0
		for _, n := range f.nodes {
			n.consumeMany("q", 10, func(r carillon.Run) *carillon.Result {
				mu.Lock()
				order = append(order, r.Job)
				if inForce++; inForce > 1 {
					t.Errorf("%d in force", inForce)
				}
				mu.Unlock()
				time.Sleep(takes)
				mu.Lock()
				inForce--
				mu.Unlock()
				return success(r)
			})
		}
		due := time.Now().Add(time.Second)
		for i := range jobs {
			put(carillon.Job{Name: fmt.Sprint("plain", i), Due: carillon.At(due)})
		}
		ran := func() int {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return len(order)
		}
		for ran() < jobs/2 {
			time.Sleep(takes)
		}
		before := ran()
		put(carillon.Job{Name: "urgent", Priority: carillon.PriorityCritical})
		for ran() <= jobs {
			time.Sleep(takes)
			if time.Since(due) > time.Minute {
				t.Fatalf("%d of %d have run", ran(), jobs+1)
			}
		}
		if most := (jobs + 1) * (takes + 4*writes); time.Since(due) > most {
			t.Errorf("it took %v for one after the other, more than %v", time.Since(due), most)
		}
		if at := slices.Index(order, "urgent"); at > before+2 {
			t.Errorf("the urgent run was number %d, put after number %d", at, before)
		}
		time.Sleep(5 * time.Second)
		f.stop()
	})
}
