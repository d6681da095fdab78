package dapr

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dapr/durabletask-go/workflow"
	"golang.org/x/sync/errgroup"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// stores names the stores that members share, with how each is started.
var stores = map[string]func(t *testing.T) string{
	"postgres": func(t *testing.T) string {
		return realserver.StartPostgres(t, realserver.Volatile()...).Database(t)
	},
	"redis": func(t *testing.T) string { return "redis://" + realserver.StartRedis(t).Address() },
}

// three is an installation of three members on each store, with a sidecar.
func three(t *testing.T, test func(t *testing.T, in *installation, s *sidecar)) {
	for name, start := range stores {
		t.Run(name, func(t *testing.T) {
			in := install(t)
			in.members(3, start(t))
			test(t, in, in.sidecar(newApp(t, "shop"), ""))
		})
	}
}

// load puts jobs: many one-shots at first, then some each second, until it is told to stop. A put that is
// refused is tried again, as an app would; one that is never taken fails the test.
type load struct {
	s      *sidecar
	tried  atomic.Int64 // puts that had to be tried again
	stop   context.CancelFunc
	closed chan error

	mu  sync.Mutex
	due map[string]time.Time // of each job that was put: when it should come, about
}

const (
	lead   = 3 * time.Second  // between a put and the time of its job, at least
	spread = 20 * time.Second // over which the first one-shots are due
	hands  = 16               // puts at once
)

// begin starts a load of so many one-shots, and of so many more each second.
func begin(t *testing.T, s *sidecar, first, each int) *load {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &load{s: s, stop: stop, closed: make(chan error, 1), due: map[string]time.Time{}}
	go func() { l.closed <- l.run(ctx, t.Context(), first, each) }()
	return l
}

// run puts until ctx ends; puts is the context of the puts, which go on to their end.
func (l *load) run(ctx, puts context.Context, first, each int) error {
	if err := l.batch(puts, "first", first, spread); err != nil {
		return err
	}
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return nil
		case <-second.C:
		}
		if err := l.batch(puts, fmt.Sprint("round-", i), each, time.Second); err != nil {
			return err
		}
	}
}

// batch puts n jobs that are due over the next d.
func (l *load) batch(ctx context.Context, name string, n int, d time.Duration) error {
	var g errgroup.Group
	g.SetLimit(hands)
	start := time.Now().Add(lead)
	for i := range n {
		due := start.Add(time.Duration(i) * d / time.Duration(n))
		g.Go(func() error { return l.put(ctx, fmt.Sprintf("%s-%d", name, i), due) })
	}
	return g.Wait()
}

func (l *load) put(ctx context.Context, name string, due time.Time) error {
	l.mu.Lock()
	l.due[name] = due
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := l.s.put(ctx, name, job{DueTime: due.UTC().Format(time.RFC3339Nano), Overwrite: true})
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("put %s: %w", name, err)
		}
		l.tried.Add(1)
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// end stops the load and waits until all of its jobs have come. It returns how many came more than once, and
// how late the latest was.
func (l *load) end(t *testing.T) (doubled int, late time.Duration) {
	t.Helper()
	l.stop()
	must(t, <-l.closed)
	eventually(t, "all jobs have come", func() error {
		came := l.s.app.all()
		missing := 0
		for name := range l.due {
			if len(came["/job/"+name]) == 0 {
				missing++
			}
		}
		if missing > 0 {
			return fmt.Errorf("%d of %d jobs have not come", missing, len(l.due))
		}
		return nil
	})
	var times []time.Time
	for name, due := range l.due {
		came := l.s.app.times("/job/" + name)
		if came[0].Before(due) {
			t.Errorf("%s came %v early", name, due.Sub(came[0]))
		}
		late = max(late, came[0].Sub(due))
		times = append(times, came...)
		if len(came) > 1 {
			doubled++
			t.Logf("%s came at %v", name, clock(came))
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	var gap time.Duration
	for i := 1; i < len(times); i++ {
		gap = max(gap, times[i].Sub(times[i-1]))
	}
	t.Logf("%d jobs, %d puts tried again, %d jobs came more than once, longest gap %v, latest %v late", len(l.due),
		l.tried.Load(), doubled, gap.Round(time.Millisecond), late.Round(time.Millisecond))
	return doubled, late
}

// clock returns the times of day.
func clock(times []time.Time) (texts []string) {
	for _, at := range times {
		texts = append(texts, at.Format("15:04:05.000"))
	}
	return texts
}

// One of three members is killed under load and comes back: every job comes, and the others go on.
func TestKillOneOfThree(t *testing.T) {
	three(t, func(t *testing.T, in *installation, s *sidecar) {
		l := begin(t, s, 3000, 100)
		victim := in.schedulers[1]
		s.app.more(t, 500)
		victim.down(t, syscall.SIGKILL)
		s.app.more(t, 1000)
		victim.up(t)
		l.end(t)
	})
}

// Each of three members is told to end and started again, one after the other: every job comes, once.
func TestRollingRestart(t *testing.T) {
	three(t, func(t *testing.T, in *installation, s *sidecar) {
		l := begin(t, s, 1000, 50)
		for i, member := range in.schedulers {
			s.app.more(t, 50)
			times := []time.Time{time.Now()}
			member.down(t, syscall.SIGTERM)
			times = append(times, time.Now())
			member.up(t)
			t.Logf("member %d was told to end, had ended and was back at %v", i, clock(append(times, time.Now())))
		}
		if doubled, _ := l.end(t); doubled > 0 {
			t.Errorf("%d jobs came more than once", doubled)
		}
	})
}

// A limit that sidecars give for all of them holds over three members, and is used to the full.
func TestGlobalLimits(t *testing.T) {
	for store, start := range stores {
		t.Run(store, func(t *testing.T) {
			const limit, workflows = 6, 90
			in := install(t)
			in.members(3, start(t))
			spec := fmt.Sprintf("{workflow: {globalMaxConcurrentActivityInvocations: %d}}", limit)
			var now, most atomic.Int64
			r := workflow.NewRegistry()
			must(t, r.AddWorkflowN("order", func(c *workflow.WorkflowContext) (any, error) {
				return nil, c.CallActivity("pack").Await(nil)
			}))
			must(t, r.AddActivityN("pack", func(workflow.ActivityContext) (any, error) {
				n := now.Add(1)
				defer now.Add(-1)
				for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
				}
				<-time.After(200 * time.Millisecond) // the work
				return nil, nil
			}))
			a := newApp(t, "packers")
			var clients []*workflow.Client
			for range 2 {
				clients = append(clients, in.sidecar(a, spec).workflows(t, r))
			}
			var ids []string
			for i := range workflows {
				id, err := clients[i%2].ScheduleWorkflow(t.Context(), "order")
				must(t, err)
				ids = append(ids, id)
			}
			for _, id := range ids {
				if _, err := clients[0].WaitForWorkflowCompletion(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
			if most.Load() != limit {
				t.Errorf("%d activities were in force at once, want %d", most.Load(), limit)
			}
			if n := in.metric("dapr_scheduler_concurrency_throttled_total"); n == 0 {
				t.Error("no run has waited for the limit, as the metrics have it")
			}
			eventually(t, "the metrics have none in force", func() error {
				if n := in.metric("dapr_scheduler_concurrency_inflight"); n != 0 {
					return fmt.Errorf("%v are", n)
				}
				return nil
			})
		})
	}
}

// metric returns the sum of a metric's values over the members.
func (in *installation) metric(name string) (sum float64) {
	in.t.Helper()
	for _, s := range in.schedulers {
		r, err := http.NewRequestWithContext(in.t.Context(), http.MethodGet, s.metrics+"/", http.NoBody)
		must(in.t, err)
		answer, err := client.Do(r)
		must(in.t, err)
		sum += sumOf(in.t, answer, name)
	}
	return sum
}

// sumOf adds up the lines of a metric.
func sumOf(t *testing.T, answer *http.Response, name string) (sum float64) {
	t.Helper()
	defer func() { _ = answer.Body.Close() }()
	var lines strings.Builder
	if err := answer.Write(&lines); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(lines.String()) {
		if !strings.HasPrefix(line, name) {
			continue
		}
		var v float64
		if _, err := fmt.Sscanf(line[strings.LastIndexByte(line, ' ')+1:], "%g", &v); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		sum += v
	}
	return sum
}
