package engine_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// rateJudge sees when attempts begin, and has a bucket from which no more may be taken than its rate allows.
type rateJudge struct {
	carillon.Rate
	level  float64
	at     time.Time
	starts []time.Time
}

func judgeOf(r carillon.Rate) *rateJudge {
	r = r.WithDefaults()
	return &rateJudge{Rate: r, level: float64(r.Burst), at: time.Now()}
}

// begin judges an attempt that begins now.
func (j *rateJudge) begin(t testing.TB) {
	now := time.Now()
	in := float64(now.Sub(j.at)) * float64(j.Count) / float64(j.Period)
	j.level, j.at = math.Min(float64(j.Burst), j.level+in)-1, now
	if j.starts = append(j.starts, now); j.level < -1e-6 {
		t.Errorf("%d attempts of %v have begun, the last at %v: its bucket has %.3f", len(j.starts), j.Rate, now, j.level)
	}
}

// ratedNode is a node that is alone, with a worker that judges each attempt of the queue "q".
type ratedNode struct {
	*node
	mu    *sync.Mutex
	judge *rateJudge
	order *[]string
}

func startRated(t *testing.T, s store.Store, r carillon.Rate) *ratedNode {
	n := &ratedNode{start(t, s), new(sync.Mutex), judgeOf(r), new([]string)}
	n.work()
	return n
}

func (n *ratedNode) work() {
	n.consumeMany("q", 1000, func(r carillon.Run) *carillon.Result {
		n.mu.Lock()
		defer n.mu.Unlock()
		if strings.HasPrefix(r.Job, "r") {
			n.judge.begin(n.t)
		}
		*n.order = append(*n.order, r.Job)
		if strings.HasSuffix(r.Job, "fails") && r.Attempt == 1 {
			return &carillon.Result{Outcome: carillon.OutcomeFailure}
		}
		return success(r)
	})
}

// restart ends the node and starts another one over its store.
func (n *ratedNode) restart(s store.Store) {
	n.stop()
	n.node = start(n.t, s)
	n.work()
}

func (n *ratedNode) set(ns carillon.Namespace) {
	n.t.Helper()
	old, err := n.GetNamespace(context.Background(), "")
	if err == nil {
		ns.Generation = old.Generation
		_, err = n.PutNamespace(context.Background(), ns)
	}
	if err != nil {
		n.t.Fatal(err)
	}
}

// put puts so many jobs that are due now, under a key.
func (n *ratedNode) put(jobs int, name, key string) {
	n.t.Helper()
	for i := range jobs {
		if _, err := n.PutJob(context.Background(), carillon.Job{Name: fmt.Sprint(name, i), ConcurrencyKey: key,
			Target: carillon.WorkerQueue("q")}); err != nil {
			n.t.Fatal(err)
		}
	}
}

// began returns how many attempts have begun under the rate, and in all.
func (n *ratedNode) began() (rated, all int) {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.judge.starts), len(*n.order)
}

// TestARateIsReachedAndNotExceeded, from one in a day to a thousand in a second, and keeps nobody else waiting.
func TestARateIsReachedAndNotExceeded(t *testing.T) {
	for _, c := range []struct {
		rate carillon.Rate
		jobs int
		// What has begun at once, and after a while.
		atOnce, later int
		after         time.Duration
	}{
		{carillon.Rate{Count: 1, Period: 24 * time.Hour}, 3, 1, 3, 48*time.Hour + time.Second},
		{carillon.Rate{Count: 6, Period: time.Minute, Burst: 1}, 4, 1, 4, 31 * time.Second},
		{carillon.Rate{Count: 5, Burst: 20}, 40, 20, 40, 4500 * time.Millisecond},
		{carillon.Rate{Count: 1000}, 2000, 1000, 2000, 1200 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := startRated(t, memory.New(memory.Options{Partitions: 8}), c.rate)
			n.set(carillon.Namespace{RateLimits: map[string]carillon.Rate{"k": c.rate}})
			n.put(c.jobs, "r", "k")
			n.put(10, "other", "")
			time.Sleep(time.Millisecond)
			if rated, all := n.began(); rated < c.atOnce || all != rated+10 {
				t.Errorf("%v: %d have begun, and %d others", c.rate, rated, all-rated)
			}
			time.Sleep(c.after)
			if rated, _ := n.began(); rated != c.later {
				t.Errorf("%v: %d have begun after %v, want %d", c.rate, rated, c.after, c.later)
			}
			n.stop()
		})
	}
}

// TestARateHoldsThroughRestarts: what was used up stays used up, and what has come in since is there.
func TestARateHoldsThroughRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{Partitions: 4})
		n := startRated(t, s, carillon.Rate{Count: 2, Period: time.Hour})
		n.set(carillon.Namespace{RateLimits: map[string]carillon.Rate{"k": {Count: 2, Period: time.Hour}}})
		n.put(6, "r", "k")
		for range 9 {
			time.Sleep(7 * time.Minute)
			n.restart(s)
		}
		n.want(4, "after 63 minutes")
		time.Sleep(time.Hour)
		n.want(6, "after 123 minutes")
		n.stop()
	})
}

// TestQuotasOfANamespace: its rate and its number of attempts hold for all its jobs, beside the limits of their
// keys. A retry is an attempt.
func TestQuotasOfANamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate := carillon.Rate{Count: 60, Period: time.Minute, Burst: 5}
		n := startRated(t, memory.New(memory.Options{Partitions: 8}), rate)
		n.set(carillon.Namespace{ConcurrencyLimits: map[string]int{"k": 2},
			RateLimits: map[string]carillon.Rate{"k": {Count: 100}}, Quotas: carillon.Quotas{Runs: rate, ConcurrentRuns: 3}})
		n.put(20, "r", "k")
		n.put(20, "rest", "")
		if _, err := n.PutJob(context.Background(), carillon.Job{Name: "r-fails", Target: carillon.WorkerQueue("q"),
			FailurePolicy: carillon.Constant(time.Second).WithMaxRetries(1)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20*time.Second + time.Millisecond)
		if rated, _ := n.began(); rated < 24 || rated > 26 {
			t.Errorf("%d have begun after 20 s", rated)
		}
		time.Sleep(20 * time.Second)
		if rated, _ := n.began(); rated != 42 {
			t.Errorf("%d have begun, want 42", rated)
		}
		n.stop()
	})
}

// TestConcurrentRunsOfANamespace are never more than its quota, whatever their targets.
func TestConcurrentRunsOfANamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New(memory.Options{Partitions: 8}))
		var mu sync.Mutex
		now, peak, ran := 0, 0, 0
		for _, queue := range []string{"q", "p"} {
			n.consumeMany(queue, 100, func(r carillon.Run) *carillon.Result {
				mu.Lock()
				now, ran = now+1, ran+1
				peak = max(peak, now)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				now--
				mu.Unlock()
				return success(r)
			})
		}
		if _, err := n.PutNamespace(context.Background(),
			carillon.Namespace{Quotas: carillon.Quotas{ConcurrentRuns: 3}}); err != nil {
			t.Fatal(err)
		}
		for i := range 12 {
			if _, err := n.PutJob(context.Background(), carillon.Job{Name: fmt.Sprint(i),
				Target: carillon.WorkerQueue([]string{"q", "p"}[i%2])}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		waiting := 0
		for i := range 12 {
			job, err := n.GetJob(context.Background(), carillon.Key{Namespace: "default", Name: fmt.Sprint(i)})
			if err != nil || job.Status.Hold == nil {
				continue // it has run, or does
			}
			if waiting++; job.Status.Hold.Code != carillon.HoldQuota || !strings.Contains(job.Status.Hold.Text,
				`the quota of concurrent runs of namespace "default": 3 of 3 permits held`) {
				t.Errorf("%+v", job.Status.Hold)
			}
		}
		if waiting != 3 {
			t.Errorf("%d wait", waiting)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if peak != 3 || ran != 12 {
			t.Errorf("%d ran, %d at a time", ran, peak)
		}
		n.stop()
	})
}

// TestARateThatChanges wakes who waits when it is raised or taken away, and holds who comes when it is set or
// lowered.
func TestARateThatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hour := func(n int64) carillon.Namespace {
			return carillon.Namespace{RateLimits: map[string]carillon.Rate{"k": {Count: n, Period: time.Hour, Burst: 1}}}
		}
		n := startRated(t, memory.New(memory.Options{Partitions: 8}), carillon.Rate{Count: carillon.MaxRate})
		n.set(hour(1))
		n.put(100, "r", "k")
		time.Sleep(time.Minute)
		n.want(1, "of one in an hour")
		n.set(hour(3600))
		time.Sleep(10*time.Second + time.Millisecond)
		n.want(11, "10 s after it became one in a second")
		n.set(hour(2))
		time.Sleep(29 * time.Minute)
		n.want(11, "29 minutes after it became two in an hour")
		time.Sleep(2 * time.Minute)
		n.want(12, "31 minutes after it became two in an hour")
		n.set(carillon.Namespace{})
		time.Sleep(time.Millisecond)
		n.want(100, "without a rate")
		n.stop()
	})
}

func (n *ratedNode) want(rated int, when string) {
	n.t.Helper()
	if is, _ := n.began(); is != rated {
		n.t.Errorf("%s %d have begun, want %d", when, is, rated)
	}
}

// TestWhyARunWaitsForARate: until when, and how many go before it.
func TestWhyARunWaitsForARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate := carillon.Rate{Count: 1, Period: time.Hour, Burst: 1}
		n := startRated(t, memory.New(memory.Options{Partitions: 1}), rate)
		n.set(carillon.Namespace{RateLimits: map[string]carillon.Rate{"k": rate}})
		began := time.Now()
		n.put(1, "r", "k")
		time.Sleep(time.Minute)
		n.put(1, "r-a", "k")
		time.Sleep(time.Minute)
		n.put(1, "r-b", "k")
		time.Sleep(time.Minute)
		for name, want := range map[string]struct {
			text string
			at   time.Duration
		}{
			"r-a0": {"; the run is the first that waits", time.Hour},
			"r-b0": {"; at least 1 other run waits before it", 2 * time.Hour},
		} {
			j, err := n.GetJob(context.Background(), carillon.Key{Namespace: "default", Name: name})
			if err != nil {
				t.Fatal(err)
			}
			h := j.Status.Hold
			text := `rate limit of concurrency key "k": 1 in 1h, at most 1 at once, the next attempt may begin at about ` +
				began.Add(time.Hour).UTC().Format(time.RFC3339) + want.text
			if h == nil || h.Code != carillon.HoldRate || h.Text != text || !h.Until.Equal(began.Add(want.at)) {
				t.Errorf("%s: %+v, want %s until %v", name, h, text, began.Add(want.at))
			}
		}
		n.stop()
	})
}

// TestWhoGoesFirstUnderARate: by priority, and then who was due first.
func TestWhoGoesFirstUnderARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate := carillon.Rate{Count: 10, Burst: 1}
		n := startRated(t, memory.New(memory.Options{Partitions: 8}), rate)
		n.set(carillon.Namespace{RateLimits: map[string]carillon.Rate{"k": rate}})
		for i := range 30 {
			n.put(1, fmt.Sprintf("r%02d-", i), "k")
			time.Sleep(time.Millisecond)
		}
		if _, err := n.PutJob(context.Background(), carillon.Job{Name: "r-urgent", ConcurrencyKey: "k",
			Target: carillon.WorkerQueue("q"), Priority: carillon.PriorityCritical}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		n.want(31, "at the end")
		if at := slices.Index(*n.order, "r-urgent"); at > 2 {
			t.Errorf("the urgent run was number %d", at)
		}
		if rest := slices.DeleteFunc(*n.order, func(s string) bool { return s == "r-urgent" }); !slices.IsSorted(rest) {
			t.Errorf("the order was %v", rest)
		}
		n.stop()
	})
}

// TestARateOfACluster: through lost messages, partitions that move and nodes that lose the store, no more
// attempts begin than the rates allow, and everything runs.
func TestARateOfACluster(t *testing.T) {
	seeds := uint64(6)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			s := memory.New(memory.Options{Partitions: 8})
			c := startCrowd(t, seed, s, 3, seed%3 > 0, map[string]int{"a": 1000, "b": 2, "c": 1000})
			rates := map[string]carillon.Rate{"a": {Count: 2, Burst: 1}, "b": {Count: 3, Burst: 5}, "c": {Count: 60,
				Period: time.Minute, Burst: 20}}
			if _, err := route(context.Background(), c.fleet, func(n *node) (carillon.Namespace, error) {
				return n.PutNamespace(context.Background(), carillon.Namespace{ConcurrencyLimits: c.most, RateLimits: rates})
			}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second) // now all nodes know
			c.judges = map[string]*rateJudge{}
			for key, r := range rates {
				c.judges[key] = judgeOf(r)
			}
			const jobs = 150
			for i := range jobs {
				key := []string{"a", "b", "c"}[c.chance(3)]
				c.put(fmt.Sprint(key, i), key, time.Duration(c.chance(1000))*time.Millisecond)
				time.Sleep(time.Duration(c.chance(200)) * time.Millisecond)
				switch i % 40 {
				case 20:
					c.deal(func(p int) int { return (p + i/40 + 1) % 3 })
				case 35:
					c.loseOne(8 * time.Second)
				}
			}
			time.Sleep(3 * time.Minute)
			synctest.Wait()
			if len(c.ran) != jobs {
				t.Errorf("seed %d: %d of %d jobs have run", seed, len(c.ran), jobs)
			}
			if left := slices.DeleteFunc(grants(t, s), func(g string) bool {
				return strings.Count(g, `\x00`) == 1 // the level of a bucket
			}); len(left) > 0 {
				t.Errorf("seed %d: tokens are still handed out: %v", seed, left)
			}
			c.stop()
		})
	}
}

// loseOne cuts a node off from the store for a while. The others get its partitions.
func (c *crowd) loseOne(away time.Duration) {
	nodes, down := len(c.nodes), c.chance(len(c.nodes))
	c.cut(down, true)
	c.deal(func(p int) int {
		if to := p % nodes; to != down {
			return to
		}
		return (down + 1) % nodes
	})
	go func() {
		time.Sleep(away)
		c.cut(down, false)
	}()
}
