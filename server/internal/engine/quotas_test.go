package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// shopJob is a one-shot of the namespace shop that does not run yet.
func shopJob(n int) carillon.Job {
	return carillon.Job{Namespace: "shop", Name: fmt.Sprint("j", n), Due: carillon.In(24 * time.Hour),
		Target: carillon.WorkerQueue("q")}
}

// shopHas returns what the store has of the namespace shop.
func shopHas(t testing.TB, s store.Store) (u carillon.Usage) {
	t.Helper()
	for p := range s.Meta().Partitions {
		shard, err := s.Shard(p, store.Term{})
		if err != nil {
			t.Fatal(err)
		}
		records, err := shard.List(context.Background(), store.ListQuery{Namespace: "shop", Limit: 100_000})
		if err != nil {
			t.Fatal(err)
		}
		u.Jobs += int64(len(records))
		for i := range records {
			u.PayloadBytes += records[i].State.Payload
		}
	}
	return u
}

// over checks that an error refuses something for a quota, in so many words.
func over(t *testing.T, err error, field, words string) {
	t.Helper()
	var e *carillon.Error
	if !errors.As(err, &e) || e.Kind != carillon.ResourceExhausted || e.Field != field || e.Unknown ||
		!strings.Contains(e.Message, words) {
		t.Errorf("got %v, want %s: %s", err, field, words)
	}
}

func putQuotas(t *testing.T, n carillon.Namespaces, q carillon.Quotas) {
	t.Helper()
	old, err := n.GetNamespace(context.Background(), "shop")
	if err == nil {
		old.Quotas = q
		_, err = n.PutNamespace(context.Background(), old)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestAQuotaOfJobs: one more is refused, whichever way it comes; what exists can be changed and deleted, and
// what is deleted makes room. It holds after a restart.
func TestAQuotaOfJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, s := context.Background(), memory.New(memory.Options{Partitions: 8})
		n := start(t, s)
		for i := range 3 { // there before there is a quota
			if _, err := n.PutJob(ctx, shopJob(i)); err != nil {
				t.Fatal(err)
			}
		}
		putQuotas(t, n, carillon.Quotas{Jobs: 5})
		full := func() {
			t.Helper()
			_, err := n.PutJob(ctx, shopJob(9))
			over(t, err, "quotas.jobs", `namespace "shop" has 5 of 5 jobs`)
			before, err := n.Ask(ctx, store.PartitionOf(carillon.Key{Namespace: "shop", Name: "j9"}, 8),
				message.Command{Request: "r", Key: carillon.Key{Namespace: "shop", Name: "j9"}, Job: new(shopJob(9))})
			over(t, err, "quotas.jobs", `namespace "shop" has 5 of 5 jobs`)
			if before != false {
				t.Error("the command was done before")
			}
			_, err = n.PutJobs(ctx, []carillon.Job{shopJob(0), shopJob(9)})
			over(t, err, "quotas.jobs", `namespace "shop" has 5 of 5 jobs`)
			changed := shopJob(1)
			changed.Note = fmt.Sprint("changed at ", time.Now())
			if _, err := n.PutJob(ctx, changed); err != nil {
				t.Error(err)
			}
			if _, err := n.PutJob(ctx, changed, carillon.Replace()); err != nil {
				t.Error(err)
			}
		}
		_, err := n.PutJobs(ctx, []carillon.Job{shopJob(3), shopJob(4), shopJob(5)})
		over(t, err, "quotas.jobs", `namespace "shop" has 3 of 5 jobs`)
		if _, err := n.PutJobs(ctx, []carillon.Job{shopJob(0), shopJob(3), shopJob(4)}); err != nil {
			t.Fatal(err)
		}
		full()
		if _, err := n.DeleteJob(ctx, carillon.Key{Namespace: "shop", Name: "j0"}); err != nil {
			t.Fatal(err)
		}
		if _, err := n.PutJob(ctx, shopJob(7)); err != nil { // in another partition
			t.Error(err)
		}
		full()
		n.stop()
		n = start(t, s)
		full()
		if ns, err := n.GetNamespace(ctx, "shop"); err != nil || ns.Used == nil || ns.Used.Jobs != 5 {
			t.Errorf("got %+v, %v", ns.Used, err)
		}
		putQuotas(t, n, carillon.Quotas{})
		if _, err := n.PutJob(ctx, shopJob(9)); err != nil {
			t.Errorf("the quota was lifted: %v", err)
		}
		putQuotas(t, n, carillon.Quotas{Jobs: 2})
		_, err = n.PutJob(ctx, shopJob(10))
		over(t, err, "quotas.jobs", `namespace "shop" has 6 of 2 jobs`)
		n.stop()
	})
}

// TestAQuotaOfBytes counts the data of jobs, as it grows and shrinks.
func TestAQuotaOfBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, s := context.Background(), memory.New(memory.Options{Partitions: 4})
		n := start(t, s)
		sized := func(i, bytes int) carillon.Job {
			j := shopJob(i)
			j.Data = carillon.Bytes(make([]byte, bytes), "")
			return j
		}
		if _, err := n.PutJob(ctx, sized(0, 400)); err != nil {
			t.Fatal(err)
		}
		putQuotas(t, n, carillon.Quotas{PayloadBytes: 1000})
		if _, err := n.PutJob(ctx, sized(1, 500)); err != nil {
			t.Fatal(err)
		}
		_, err := n.PutJob(ctx, sized(2, 101))
		over(t, err, "quotas.payload_bytes", `namespace "shop" has 900 of 1,000 bytes of data, and 101 more`)
		_, err = n.PatchJob(ctx, carillon.Key{Namespace: "shop", Name: "j1"},
			carillon.Patch{Fields: []string{"data"}, Job: sized(1, 601)})
		over(t, err, "quotas.payload_bytes", "101 more")
		for _, j := range []carillon.Job{sized(2, 0), sized(0, 100), sized(1, 900)} {
			if _, err := n.PutJob(ctx, j); err != nil {
				t.Error(err)
			}
		}
		if ns, err := n.GetNamespace(ctx, "shop"); err != nil || *ns.Used != shopHas(t, s) ||
			*ns.Used != (carillon.Usage{Jobs: 3, PayloadBytes: 1000}) {
			t.Errorf("got %+v, %v", ns.Used, err)
		}
		n.stop()
	})
}

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
								if err := randomChange(ctx, f, random.roll, c.batches); errors.Is(err, carillon.ResourceExhausted) {
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
					if s.most > quota+c.beyond || refused.Load() == 0 {
						t.Errorf("there were up to %d jobs; %d puts were refused", s.most, refused.Load())
					}
					f.intercept(nil)
					f.settled()
					time.Sleep(2 * time.Minute) // what was set aside for batches that failed is free again
					f.fills(quota, len(s.names))
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

func putShopQuotas(t *testing.T, f *fleet, q carillon.Quotas) {
	t.Helper()
	_, err := route(context.Background(), f, func(n *node) (carillon.Namespace, error) {
		return n.PutNamespace(context.Background(), carillon.Namespace{Name: "shop", Quotas: q})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestTheRateHoldsInACluster: of changes at three nodes, in any time no more are made than the burst and what
// the rate brings in that time and 100 ms; and not many fewer. Who is refused is told when to come again.
func TestTheRateHoldsInACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, burst, callers = 50, 20, 12
		ctx, s := context.Background(), memory.New(memory.Options{Partitions: 8})
		f := startFleet(t, s, 3, func(_ int, c *engine.Config) { c.LeaseTTL = 4 * time.Second })
		f.deal(func(p int) int { return p % 3 })
		f.settled()
		putShopQuotas(t, f, carillon.Quotas{Puts: carillon.Rate{Count: rate, Burst: burst}})
		time.Sleep(6 * time.Second) // until all nodes know
		var mu sync.Mutex
		var made []time.Duration
		began := time.Now()
		var calls sync.WaitGroup
		for c := range callers {
			calls.Go(func() {
				for i := 0; time.Since(began) < 10*time.Second; i++ {
					_, err := routePut(ctx, f, shopJob(1000*c+i))
					var e *carillon.Error
					switch {
					case err == nil:
						mu.Lock()
						made = append(made, time.Since(began))
						mu.Unlock()
					case errors.As(err, &e) && e.Field == "quotas.puts" && e.RetryAfter > 0:
						time.Sleep(e.RetryAfter)
					default:
						t.Error(err)
						return
					}
				}
			})
		}
		calls.Wait()
		for i := range made {
			for k := i; k < len(made); k++ {
				within := (made[k] - made[i] + 100*time.Millisecond).Seconds()
				if n := k - i + 1; float64(n) > burst+rate*within+1 {
					t.Fatalf("%d changes within %v", n, made[k]-made[i])
				}
			}
		}
		if len(made) < 10*rate*8/10 {
			t.Errorf("%d changes were made in 10 s", len(made))
		}
		f.stop()
	})
}
