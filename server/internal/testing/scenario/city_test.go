package scenario_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/testing/chaos"
	"github.com/carillonhq/carillon/server/store"
	workers "github.com/carillonhq/carillon/worker"
)

var (
	stores = flag.String("stores", "postgres",
		"stores of the scenarios with real processes, separated by commas: postgres, redis, rediscluster, etcd, etcdcluster, "+
			"cassandra, cassandracluster, s3")
	given  = flag.String("binary", "", "the carillon that scenarios with real processes run; default one that is built from this source")
	divide = flag.Int("divide", 6,
		"what the scenarios with real processes are divided by: their spans, and how many jobs "+
			"there are where that takes as long; 1 = as they are written")
)

// city is several real nodes on a real store, their workers, and what those saw.
type city struct {
	*chaos.Cluster
	t        *testing.T
	nodes    []*chaos.Member // those that it began with
	observer *chaos.Observer

	mu    sync.Mutex
	seen  []delivery
	moves []move
}

// move is that a partition got another owner, or the same one under another term.
type move struct {
	at       time.Time // when it was seen: at most some ten milliseconds later
	from, to store.Owner
}

// partitions of a city's store.
const partitions = 64

// patience is how long something may take that should happen soon.
const patience = time.Minute

// span is a stretch of a scenario, and so is the work that it is filled with: count.
func span(d time.Duration) time.Duration { return d / time.Duration(*divide) }

func count(n int) int { return n / *divide }

// built is carillon, built once for all tests.
var built = sync.OnceValues(func() (string, error) {
	if *given != "" {
		return *given, nil
	}
	folder, err := os.MkdirTemp("", "carillon-scenario-")
	if err != nil {
		return "", err
	}
	builtIn = folder
	return chaos.Build(context.Background(), folder)
})

var builtIn string

// cities is how many cities live side by side: most of their time is waiting for leases to end.
const cities = 4

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(cities)); err != nil {
		panic(err) // package testing has the flag
	}
	m.Run() // what it returns is how the process will end
	if builtIn != "" {
		_ = os.RemoveAll(builtIn) // what stays is in the system's folder for such things
	}
}

// beside is inCity for a test that can go on beside others: it puts little load on its city and leaves it
// much time.
func beside(t *testing.T, n int, test func(t *testing.T, c *city)) {
	t.Helper()
	t.Parallel()
	inCity(t, n, test)
}

// inCity runs a test with a city of n nodes for each store. The flags are those that a node of this city has
// besides a city's own.
func inCity(t *testing.T, n int, test func(t *testing.T, c *city), flags ...string) {
	t.Helper()
	if testing.Short() {
		t.Skip("processes are not for -short")
	}
	backends := map[string]func(*testing.T) chaos.Backend{
		"postgres":         func(t *testing.T) chaos.Backend { return chaos.PostgresBackend(t) },
		"redis":            func(t *testing.T) chaos.Backend { return chaos.RedisBackend(t) },
		"rediscluster":     func(t *testing.T) chaos.Backend { return chaos.RedisClusterBackend(t) },
		"etcd":             func(t *testing.T) chaos.Backend { return chaos.EtcdBackend(t) },
		"etcdcluster":      func(t *testing.T) chaos.Backend { return chaos.EtcdClusterBackend(t) },
		"cassandra":        func(t *testing.T) chaos.Backend { return chaos.CassandraBackend(t) },
		"cassandracluster": func(t *testing.T) chaos.Backend { return chaos.CassandraClusterBackend(t) },
		"s3":               func(t *testing.T) chaos.Backend { return chaos.S3Backend(t) },
		"gcs":              func(t *testing.T) chaos.Backend { return chaos.GCSBackend(t) },
	}
	for name := range strings.SplitSeq(*stores, ",") {
		t.Run(name, func(t *testing.T) {
			b := backends[name]
			if b == nil {
				t.Fatalf("-stores: there is no %q", name)
			}
			test(t, found(t, b(t), n, flags...))
		})
	}
}

// found makes a city.
func found(t *testing.T, b chaos.Backend, n int, flags ...string) *city {
	t.Helper()
	binary, err := built()
	must(t, err)
	c := &city{t: t, Cluster: chaos.NewCluster(chaos.ClusterConfig{Binary: binary, Store: b, Logs: t.TempDir(),
		Flags: append([]string{"--partitions", fmt.Sprint(partitions), "--drain-grace", "10s",
			"--log-level", "debug"}, flags...)})}
	t.Cleanup(func() {
		must(t, c.Close())
		c.keepLogs()
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := chaos.OpenStore(ctx, b.URL, partitions)
	must(t, err)
	c.observer = chaos.Observe(s, b.Stale, c.note)
	t.Cleanup(func() { must(t, c.observer.Close()) })
	c.nodes, err = c.Start(ctx, n)
	must(t, err)
	c.settled()
	return c
}

// keepLogs keeps the nodes' logs if the test has failed.
func (c *city) keepLogs() {
	if !c.t.Failed() {
		return
	}
	folder, err := os.MkdirTemp("", "carillon-logs-") // it outlives the test
	if err == nil {
		err = os.CopyFS(folder, os.DirFS(c.Logs))
	}
	c.t.Logf("the nodes' logs are in %s %v", filepath.Clean(folder), err)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (c *city) note(_, at time.Time, before, now store.Owner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moves = append(c.moves, move{at, before, now})
}

// settled waits until every node that runs is ready and every partition is owned by one of them, who has it
// in memory: so long an operator waits before he goes on to the next node.
func (c *city) settled() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	must(c.t, c.Ready(ctx))
	names := map[string]bool{}
	for _, m := range c.Running() {
		names[m.Name] = true
	}
	c.until("all owned", func(owners []store.Owner) bool {
		share := map[string]int{}
		for _, o := range owners {
			share[o.Node]++
		}
		for name := range share {
			if !names[name] {
				return false
			}
		}
		return len(owners) == partitions && len(share) == len(names)
	})
	c.await("all partitions are served", func() bool { return c.served() == partitions })
}

// served is how many partitions the nodes say that they serve.
func (c *city) served() (sum int) {
	for _, m := range c.Running() {
		must(c.t, m.Until(c.t.Context(), "/metrics", func(body string, _ error) bool {
			_, after, _ := strings.Cut(body, "\ncarillon_partitions_owned ")
			n, _ := strconv.Atoi(strings.SplitN(after, "\n", 2)[0]) // one that says nothing serves nothing
			sum += n
			return true
		}))
	}
	return sum
}

func (c *city) until(what string, wanted func([]store.Owner) bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	must(c.t, c.observer.Until(ctx, what, wanted))
}

// owned is what a node owns now, by partition.
func (c *city) owned(m *chaos.Member) map[int]store.Owner {
	c.t.Helper()
	owners, _, err := c.observer.Owners()
	must(c.t, err)
	out := map[int]store.Owner{}
	for _, o := range owners {
		if o.Node == m.Name {
			out[o.Partition] = o
		}
	}
	return out
}

// later are the moves of a partition after an instant.
func (c *city) later(p int, than time.Time) (out []move) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.moves {
		if m.to.Partition == p && m.at.After(than) {
			out = append(out, m)
		}
	}
	return out
}

// client is one of a node.
func (c *city) client(m *chaos.Member, o ...client.Option) *client.Client {
	c.t.Helper()
	cl, err := client.Dial(m.Front.Address(), o...)
	must(c.t, err)
	c.t.Cleanup(func() { must(c.t, cl.Close()) })
	return cl
}

// employ runs a worker of the SDK, which knows one node and learns of the others, unless options of its
// client say otherwise. It ends with the test.
func (c *city) employ(id string, m *chaos.Member, slots int,
	handle func(ctx context.Context, run carillon.Run) error, o ...client.Option) {
	c.t.Helper()
	w := workers.New(c.client(m, o...), workers.Options{ID: id, Concurrency: slots, Grace: -1})
	workers.Handle(w, "q", func(ctx context.Context, run carillon.Run, _ []byte) error {
		c.mu.Lock()
		c.seen = append(c.seen, delivery{Run: run, At: time.Now(), Worker: id})
		c.mu.Unlock()
		return handle(ctx, run)
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.Run(ctx); err != nil && ctx.Err() == nil {
			c.t.Errorf("worker %s: %v", id, err)
		}
	})
	c.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// staff employs a worker at each node.
func (c *city) staff(slots int, handle func(ctx context.Context, run carillon.Run) error) {
	c.t.Helper()
	for i, m := range c.nodes {
		c.employ(fmt.Sprint("worker-", i), m, slots, handle)
	}
}

// well answers an attempt with success.
func well(context.Context, carillon.Run) error { return nil }

// load puts jobs through all nodes in turn, for queue "q" unless they say otherwise.
func (c *city) load(jobs []carillon.Job) {
	c.t.Helper()
	var via []*client.Client
	for _, m := range c.Running() {
		via = append(via, c.client(m))
	}
	for i := range jobs {
		if jobs[i].Target.Kind() == "" {
			jobs[i].Target = carillon.WorkerQueue("q")
		}
	}
	for i := 0; len(jobs) > 0; i++ {
		n := min(len(jobs), 500)
		ctx, cancel := context.WithTimeout(c.t.Context(), patience)
		_, err := via[i%len(via)].PutJobs(ctx, jobs[:n])
		cancel()
		must(c.t, err)
		jobs = jobs[n:]
	}
}

// ledger is a copy of what workers have seen.
func (c *city) ledger() []delivery {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.seen)
}

// byRun is the deliveries of each run, in order.
func (c *city) byRun() map[string][]delivery {
	out := map[string][]delivery{}
	for _, d := range c.ledger() {
		out[d.ID] = append(out[d.ID], d)
	}
	return out
}

// jobs is how many jobs of a prefix have been delivered.
func (c *city) jobs(prefix string) int {
	seen := map[string]bool{}
	for _, d := range c.ledger() {
		if strings.HasPrefix(d.Job, prefix) {
			seen[d.Job] = true
		}
	}
	return len(seen)
}

// await waits until something is so.
func (c *city) await(what string, so func() bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for !so() {
		select {
		case <-look.C:
		case <-ctx.Done():
			c.t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// at waits for a moment of the scenario.
func (c *city) at(t time.Time) {
	c.t.Helper()
	clock := time.NewTimer(time.Until(t))
	defer clock.Stop()
	select {
	case <-clock.C:
	case <-c.t.Context().Done():
		c.t.Fatal("the test was ended")
	}
}

// early fails for each delivery before its time.
func (c *city) early() {
	c.t.Helper()
	for _, d := range c.ledger() {
		if d.At.Before(d.Scheduled) {
			c.t.Errorf("%s came %v early", d.Job, d.Scheduled.Sub(d.At))
		}
	}
}

// partitionOf is a job's.
func partitionOf(name string) int { return store.PartitionOf(key(name), partitions) }

// named makes n names whose partitions are wanted.
func named(prefix string, n int, wanted func(p int) bool) (names []string) {
	for i := 0; len(names) < n; i++ {
		if name := fmt.Sprint(prefix, "/", i); wanted(partitionOf(name)) {
			names = append(names, name)
		}
	}
	return names
}

// quantile of durations; 0 of none.
func quantile(ds []time.Duration, q float64) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	slices.Sort(ds)
	return ds[int(q*float64(len(ds)-1))]
}
