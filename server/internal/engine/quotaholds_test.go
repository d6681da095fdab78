package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// tallied is a store that counts the jobs of the namespace shop as they are written.
type tallied struct {
	store.Store
	mu    sync.Mutex
	names map[string]bool
	most  int // that there ever were
}

func (s *tallied) Shard(p int, term store.Term) (store.Shard, error) {
	shard, err := s.Store.Shard(p, term)
	return talliedShard{shard, s}, err
}

// tally is how many jobs there are, and how many there ever were at a time.
func (s *tallied) tally() (now, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.names), s.most
}

type talliedShard struct {
	store.Shard
	in *tallied
}

func (s talliedShard) Apply(ctx context.Context, b *store.Batch) error {
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	err := s.Shard.Apply(ctx, b)
	if err != nil {
		return err
	}
	for _, r := range b.Deletes {
		if r.Seq == 0 && r.Namespace == "shop" {
			delete(s.in.names, r.Name)
		}
	}
	for i := range b.Puts {
		if r := b.Puts[i].Ref; r.Seq == 0 && r.Namespace == "shop" {
			s.in.names[r.Name] = true
		}
	}
	s.in.most = max(s.in.most, len(s.in.names))
	return nil
}

// rolls are random numbers for several goroutines.
type rolls struct {
	sync.Mutex
	*rand.Rand
}

func (r *rolls) roll(n int) int {
	r.Lock()
	defer r.Unlock()
	return r.IntN(n)
}

// TestQuotasHoldInACluster: while jobs are put, alone and in batches, and deleted at three nodes, partitions
// move and messages are lost, there are never more of them than the quota; and in the end, as many as that
// can be put. A batch whose partition moves while it is put may be stored beyond it.
func TestQuotasHoldInACluster(t *testing.T) {
	const quota, callers, steps, batch = 30, 8, 60, 5
	for name, c := range map[string]struct {
		batches, moves bool
		beyond         int
	}{
		"while partitions move":             {moves: true},
		"with batches":                      {batches: true},
		"with batches, and partitions move": {batches: true, moves: true, beyond: callers * batch},
	} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprint(name, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx := context.Background()
					s := &tallied{Store: memory.New(memory.Options{Partitions: 8}), names: map[string]bool{}}
					f := startFleet(t, s, 3, nil)
					f.deal(func(p int) int { return p % 3 })
					f.settled()
					putShopQuotas(t, f, carillon.Quotas{Jobs: quota})
					time.Sleep(6 * time.Second) // until all nodes know, since nothing is announced here
					random := &rolls{Rand: rand.New(rand.NewPCG(seed, 1))}
					f.intercept(badNetwork(random))
					var calls sync.WaitGroup
					var refused atomic.Int64
					for range callers {
						calls.Go(func() {
							for range steps {
								err := randomChange(ctx, f, random.roll, c.batches)
								if errors.Is(err, carillon.ResourceExhausted) {
									refused.Add(1)
								}
							}
						})
					}
					for range 20 {
						time.Sleep(100 * time.Millisecond)
						if shift := random.roll(3); c.moves {
							f.deal(func(p int) int { return (p/2 + shift) % 3 })
						}
					}
					calls.Wait()
					if _, most := s.tally(); most > quota+c.beyond || refused.Load() == 0 {
						t.Errorf("there were up to %d jobs; %d puts were refused", most, refused.Load())
					}
					f.intercept(nil)
					f.settled()
					time.Sleep(2 * time.Minute) // what was set aside for batches that failed is free again
					there, _ := s.tally()
					f.fills(quota, there)
					f.stop()
				})
			})
		}
	}
}

// badNetwork returns what delays what is said about quotas, and loses some of it, on the way there or back.
func badNetwork(random *rolls) func(int, message.Message) error {
	return func(_ int, m message.Message) error {
		switch m.(type) {
		case message.AskRoom, message.CountUsage:
			time.Sleep(time.Duration(random.roll(30)) * time.Millisecond)
			if random.roll(8) == 0 {
				return carillon.Errorf(carillon.Unavailable, "", "lost")
			}
		}
		return nil
	}
}

// fills checks that as many jobs can be put as there is room for, if there are so many.
func (f *fleet) fills(quota, there int) {
	f.t.Helper()
	for i := there; ; i++ {
		_, err := routePut(context.Background(), f, shopJob(1000+i))
		switch {
		case errors.Is(err, carillon.ResourceExhausted) && i >= quota:
			return
		case err != nil || i >= quota:
			f.t.Fatalf("of a quota of %d, a job beside %d: %v", quota, i, err)
		}
	}
}

// randomChange puts or deletes a job, or puts some in a batch.
func randomChange(ctx context.Context, f *fleet, roll func(n int) int, batches bool) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	const names = 90
	switch n := roll(5); {
	case n == 0:
		_, err := route(ctx, f, func(n *node) (carillon.DeleteResult, error) {
			return n.DeleteJob(ctx, carillon.Key{Namespace: "shop", Name: fmt.Sprint("j", roll(names))})
		})
		return err
	case n == 1 && batches:
		first := roll(names - 5)
		var batch []carillon.Job
		for i := range 5 {
			batch = append(batch, shopJob(first+i))
		}
		_, err := route(ctx, f, func(n *node) ([]carillon.PutResult, error) { return n.PutJobs(ctx, batch) })
		return err
	}
	_, err := routePut(ctx, f, shopJob(roll(names)))
	return err
}

func routePut(ctx context.Context, f *fleet, j carillon.Job) (carillon.PutResult, error) {
	return route(ctx, f, func(n *node) (carillon.PutResult, error) { return n.PutJob(ctx, j) })
}

func putShopQuotas(t testing.TB, f *fleet, q carillon.Quotas) {
	t.Helper()
	_, err := route(context.Background(), f, func(n *node) (carillon.Namespace, error) {
		return n.PutNamespace(context.Background(), carillon.Namespace{Name: "shop", Quotas: q})
	})
	if err != nil {
		t.Fatal(err)
	}
}
