package engine_test

import (
	"context"
	"slices"
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

// silentAfter is how long a call to the store waits for an answer that never comes.
const silentAfter = 12 * time.Second

// distant is a store on another machine, as one node reaches it. While it is cut off no call is answered.
type distant struct {
	*memory.Store
	cut atomic.Bool
}

// answers waits for the answer of a store that may be cut off.
func (r *distant) answers(ctx context.Context) error {
	if !r.cut.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, silentAfter)
	defer cancel()
	<-ctx.Done()
	return ctx.Err()
}

// far calls a store that may be cut off.
func far[T any](ctx context.Context, r *distant, ask func() (T, error)) (value T, err error) {
	if err := r.answers(ctx); err != nil {
		return value, err
	}
	return ask()
}

func (r *distant) Shard(p int, term store.Term) (store.Shard, error) {
	s, err := r.Store.Shard(p, term)
	return distantShard{s, r}, err
}

func (r *distant) ApplyGroup(ctx context.Context, writes []store.Write) error {
	if err := r.answers(ctx); err != nil {
		return err
	}
	return r.Store.ApplyGroup(ctx, under(writes, func(s distantShard) store.Shard { return s.Shard }))
}

func (r *distant) ReadAll(ctx context.Context, asked []store.Asked) ([][]store.Record, error) {
	below := make([]store.Asked, len(asked))
	for i, a := range asked {
		below[i] = store.Asked{Shard: a.Shard.(distantShard).Shard, Refs: a.Refs}
	}
	return far(ctx, r, func() ([][]store.Record, error) { return r.Store.ReadAll(ctx, below) })
}

type distantShard struct {
	store.Shard
	r *distant
}

func (s distantShard) Apply(ctx context.Context, b *store.Batch) error {
	if err := s.r.answers(ctx); err != nil {
		return err
	}
	return s.Shard.Apply(ctx, b)
}

func (s distantShard) Read(ctx context.Context, refs []store.Ref) ([]store.Record, error) {
	return far(ctx, s.r, func() ([]store.Record, error) { return s.Shard.Read(ctx, refs) })
}

func (s distantShard) Live(ctx context.Context, id store.RunID) (store.Ref, bool, error) {
	if err := s.r.answers(ctx); err != nil {
		return store.Ref{}, false, err
	}
	return s.Shard.Live(ctx, id)
}

func (s distantShard) Due(ctx context.Context, q store.DueQuery) ([]store.Record, error) {
	return far(ctx, s.r, func() ([]store.Record, error) { return s.Shard.Due(ctx, q) })
}

func (s distantShard) Staged(ctx context.Context, q store.StagedQuery) ([]store.Record, error) {
	return far(ctx, s.r, func() ([]store.Record, error) { return s.Shard.Staged(ctx, q) })
}

func (s distantShard) Runs(ctx context.Context, q store.RunQuery) ([]store.RunRecord, error) {
	return far(ctx, s.r, func() ([]store.RunRecord, error) { return s.Shard.Runs(ctx, q) })
}

func (s distantShard) MetaRecords(ctx context.Context, q store.MetaQuery) ([]store.MetaRecord, error) {
	return far(ctx, s.r, func() ([]store.MetaRecord, error) { return s.Shard.MetaRecords(ctx, q) })
}

type distantLeaser struct {
	store.Leaser
	r *distant
}

func (r *distant) Leaser() store.Leaser { return distantLeaser{r.Store.Leaser(), r} }

func (l distantLeaser) Owners(ctx context.Context) ([]store.Owner, error) {
	return far(ctx, l.r, func() ([]store.Owner, error) { return l.Leaser.Owners(ctx) })
}

func (l distantLeaser) Claim(ctx context.Context, node string, ps []int,
	ttl time.Duration) ([]store.Term, error) {
	return far(ctx, l.r, func() ([]store.Term, error) { return l.Leaser.Claim(ctx, node, ps, ttl) })
}

func (l distantLeaser) Renew(ctx context.Context, node string, held []store.Holding,
	ttl time.Duration) ([]store.Holding, error) {
	return far(ctx, l.r, func() ([]store.Holding, error) { return l.Leaser.Renew(ctx, node, held, ttl) })
}

func (l distantLeaser) Release(ctx context.Context, node string, held []store.Holding) error {
	if err := l.r.answers(ctx); err != nil {
		return err
	}
	return l.Leaser.Release(ctx, node, held)
}

// others finds the owner of a partition among the nodes other than the one that asks, which knows that it is
// not the owner.
type others struct {
	peers
	asking int
}

func (o others) Ask(ctx context.Context, p int, m message.Message) (any, error) {
	if _, relay := m.(message.RelayReports); !relay {
		return o.peers.Ask(ctx, p, m)
	}
	rest := &fleet{nodes: slices.Delete(slices.Clone(o.nodes), o.asking, o.asking+1)}
	return peers{rest}.Ask(ctx, p, m)
}

// startDistant returns a fleet of two nodes with one lane each, and their lines to the store. The second node
// has the partitions numbered from and above.
func startDistant(t testing.TB, from int) (f *fleet, lines []*distant) {
	t.Helper()
	s := memory.New(memory.Options{Partitions: 2})
	f = &fleet{}
	g := startFleet(t, s, 2, func(i int, c *engine.Config) {
		r := &distant{Store: s}
		lines = append(lines, r)
		c.Store, c.Lanes, c.Peers = r, 1, others{peers{f}, i}
	})
	f.t, f.store, f.nodes, f.all = g.t, g.store, g.nodes, g.all
	f.deal(func(p int) int {
		if p >= from {
			return 1
		}
		return 0
	})
	f.settled()
	return f, lines
}

// attemptOf puts a job with a queue of its own at the owner of its partition. It returns the job's attempt,
// which is durable by then.
func (f *fleet) attemptOf(owner, p, number int,
	handle func(carillon.Run) *carillon.Result) (c *consumer, r carillon.Run) {
	f.t.Helper()
	name := f.at(p, number)
	c = f.nodes[owner].consume(name, 1, handle)
	job := carillon.Job{Name: name, Target: carillon.WorkerQueue(name), Lease: 10 * time.Second}
	if _, err := f.nodes[owner].PutJob(context.Background(), job); err != nil {
		f.t.Fatal(err)
	}
	time.Sleep(3 * time.Second)
	synctest.Wait()
	if len(c.got()) != 1 {
		f.t.Fatalf("%d attempts", len(c.got()))
	}
	return c, c.got()[0]
}

// succeed reports a success to a node.
func (c *consumer) succeed(t testing.TB, r carillon.Run) {
	t.Helper()
	if err := c.Send(context.Background(),
		carillon.WorkRequest{Results: []carillon.Result{done(r)}}); err != nil {
		t.Fatal(err)
	}
}

// TestAResultThroughANodeCutOffFromTheStore: the next owner hears it about when it takes over. The node's
// reads and claims, which wait for the store far longer, do not delay it.
func TestAResultThroughANodeCutOffFromTheStore(t *testing.T) {
	for name, reads := range map[string]bool{"reading": true, "not reading": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, lines := startDistant(t, 2)
				over, ended := f.attemptOf(0, 0, 0, success)
				old, run := f.attemptOf(0, 1, 1, func(carillon.Run) *carillon.Result { return nil })
				lines[0].cut.Store(true)
				f.nodes[1].Assign(f.all)
				if reads {
					over.succeed(t, ended) // it is searched in the history
				}
				time.Sleep(100 * time.Millisecond)
				old.succeed(t, run)
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if len(f.nodes[1].Holdings()) != 2 {
					t.Fatal("the other node has not taken over")
				}
				got, err := f.nodes[1].GetRun(context.Background(), "default", run.ID)
				if err != nil || got.Status != carillon.RunSucceeded || got.Attempt != 1 {
					t.Errorf("%+v %v", got, err)
				}
				if acks, stale := old.counts(); acks != 1 || stale != 0 {
					t.Errorf("%d acknowledgements, %d stale", acks, stale)
				}
				lines[0].cut.Store(false)
				time.Sleep(time.Minute)
				f.stop()
			})
		})
	}
}

// TestAResultForAnotherNodeWhileOneReads: the node reads in vain from a store that it is cut off from, and
// relays the result at once.
func TestAResultForAnotherNodeWhileOneReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, lines := startDistant(t, 1)
		here, ended := f.attemptOf(0, 0, 0, success)
		_, run := f.attemptOf(1, 1, 1, func(carillon.Run) *carillon.Result { return nil })
		lines[0].cut.Store(true)
		here.succeed(t, ended)
		time.Sleep(100 * time.Millisecond)
		before, _ := here.counts()
		here.succeed(t, run)
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if acks, stale := here.counts(); acks != before+1 || stale != 0 {
			t.Errorf("%d acknowledgements, %d stale", acks-before, stale)
		}
		lines[0].cut.Store(false)
		time.Sleep(time.Minute)
		f.stop()
	})
}
