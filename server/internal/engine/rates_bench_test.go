package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

// BenchmarkTenants measures how late runs of one tenant are, 200 in a second, alone and beside another tenant with
// ten times its quota of runs, 500 in a second. An operation is five seconds of it.
func BenchmarkTenants(b *testing.B) {
	const seconds, calm, quota = 5, 200, 500
	for name, open := range engines {
		for beside, greedy := range map[string]int{"alone": 0, "beside": 10 * quota} {
			b.Run(name+"/"+beside, func(b *testing.B) {
				n := start(b, open(b))
				if _, err := n.PutNamespace(context.Background(), carillon.Namespace{Name: "greedy",
					Quotas: carillon.Quotas{Runs: carillon.Rate{Count: quota}}}); err != nil {
					b.Fatal(err)
				}
				calmRuns, greedyRuns := n.tenant("calm"), n.tenant("greedy")
				var used processors
				for i := range b.N {
					begin := time.Now().Add(5 * time.Second)
					n.spread(b, "greedy", i, greedy*seconds, begin, seconds*time.Second)
					n.spread(b, "calm", i, calm*seconds, begin, seconds*time.Second)
					time.Sleep(time.Until(begin))
					since := processorsUsed(b)
					time.Sleep(time.Until(begin.Add((seconds + 1) * time.Second)))
					used.add(since, processorsUsed(b))
				}
				late := calmRuns.late()
				reportLate(b, late)
				used.report(b)
				b.ReportMetric(float64(len(late))/float64(b.N), "calm/op")
				b.ReportMetric(float64(len(greedyRuns.late()))/float64(b.N), "greedy/op")
				n.stop()
			})
		}
	}
}

// BenchmarkTenantsPut measures how long the puts of one tenant take, 200 in a second, alone and beside another tenant
// that puts ten times its quota, 500 in a second, and does not wait when it is refused. An operation is five
// seconds of it.
func BenchmarkTenantsPut(b *testing.B) {
	const seconds, calm, quota = 5, 200, 500
	for name, open := range engines {
		for beside, greedy := range map[string]int{"alone": 0, "beside": 10 * quota} {
			b.Run(name+"/"+beside, func(b *testing.B) {
				n := start(b, open(b))
				if _, err := n.PutNamespace(context.Background(), carillon.Namespace{Name: "greedy",
					Quotas: carillon.Quotas{Puts: carillon.Rate{Count: quota}}}); err != nil {
					b.Fatal(err)
				}
				var took, others []time.Duration
				refused := 0
				var used processors
				for i := range b.N {
					since := processorsUsed(b)
					var all sync.WaitGroup
					all.Go(func() {
						lags, no := n.puts("greedy", i, greedy, seconds*time.Second)
						others, refused = append(others, lags...), refused+no
					})
					all.Go(func() {
						lags, no := n.puts("calm", i, calm, seconds*time.Second)
						if took = append(took, lags...); no > 0 {
							b.Errorf("%d puts of the tenant that keeps to its quota were refused", no)
						}
					})
					all.Wait()
					used.add(since, processorsUsed(b))
				}
				reportLate(b, took)
				used.report(b)
				b.ReportMetric(float64(len(took))/float64(b.N), "calm/op")
				b.ReportMetric(float64(len(others))/float64(b.N), "greedy/op")
				b.ReportMetric(float64(refused)/float64(b.N), "refused/op")
				n.stop()
			})
		}
	}
}

// reportLate reports percentiles of how long something took.
func reportLate(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(took[len(took)-1].Microseconds()), "max-µs")
}

// processors is how long the threads of this process ran, and how long they were ready to run and waited because
// others had the processors. With the latter, percentiles of milliseconds say how full the machine was, not what
// one tenant does to another: who needs more of a full machine waits for it more often.
type processors struct{ ran, waited time.Duration }

// processorsUsed returns the sums so far. They are zero where the system does not count them.
func processorsUsed(b *testing.B) (sum processors) {
	b.Helper()
	files, err := filepath.Glob("/proc/self/task/*/schedstat")
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(filepath.Clean(name))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // the thread has ended
		}
		var ran, waited, times int64
		if err == nil {
			_, err = fmt.Sscan(string(text), &ran, &waited, &times)
		}
		if err != nil {
			b.Fatal(err)
		}
		sum.ran, sum.waited = sum.ran+time.Duration(ran), sum.waited+time.Duration(waited)
	}
	return sum
}

// add adds what was used between two readings.
func (p *processors) add(since, until processors) {
	p.ran, p.waited = p.ran+until.ran-since.ran, p.waited+until.waited-since.waited
}

func (p *processors) report(b *testing.B) {
	if p.ran > 0 {
		b.ReportMetric(float64(p.ran.Milliseconds())/float64(b.N), "ran-ms/op")
		b.ReportMetric(float64(p.waited.Milliseconds())/float64(b.N), "waited-ms/op")
	}
}

// puts stores jobs at a rate, however long each takes. It returns how long those took that were not refused,
// from when each should have begun.
func (n *node) puts(namespace string, nth, rate int, over time.Duration) (took []time.Duration, refused int) {
	var mu sync.Mutex
	var calls sync.WaitGroup
	begin := time.Now()
	for i := range rate * int(over/time.Second) {
		at := begin.Add(time.Duration(i) * time.Second / time.Duration(rate))
		time.Sleep(time.Until(at))
		calls.Go(func() {
			_, err := n.PutJob(context.Background(), carillon.Job{Namespace: namespace, Name: fmt.Sprint(nth, "/", i),
				Due: carillon.At(begin.AddDate(1, 0, 0)), Target: carillon.WorkerQueue("q")})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				took = append(took, time.Since(at))
			case errors.Is(err, carillon.ResourceExhausted):
				refused++
			default:
				n.t.Error(err)
			}
		})
	}
	calls.Wait()
	return took, refused
}

// tenant is the worker of a namespace, which notes how late its runs come.
type tenant struct {
	mu   sync.Mutex
	lags []time.Duration
}

func (t *tenant) late() []time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.lags)
}

func (n *node) tenant(namespace string) *tenant {
	s, err := n.hub.Connect(context.Background(), carillon.Hello{Namespace: namespace, Queues: []string{"q"}})
	if err != nil {
		n.t.Fatal(err)
	}
	if err := s.Send(context.Background(),
		carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: 1000}}}); err != nil {
		n.t.Fatal(err)
	}
	t, c := &tenant{}, &consumer{Session: s, done: make(chan struct{})}
	go c.run("q", func(r carillon.Run) *carillon.Result {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.lags = append(t.lags, time.Since(r.Due))
		return success(r)
	})
	return t
}

// spread puts jobs that are due evenly over a time.
func (n *node) spread(b *testing.B, namespace string, nth, jobs int, begin time.Time, over time.Duration) {
	var batch []carillon.Job
	for i := range jobs {
		batch = append(batch, carillon.Job{Namespace: namespace, Name: fmt.Sprint(nth, "/", i),
			Due: carillon.At(begin.Add(over * time.Duration(i) / time.Duration(jobs))), Target: carillon.WorkerQueue("q")})
		if len(batch) == carillon.MaxBatch || i == jobs-1 {
			if _, err := n.PutJobs(context.Background(), batch); err != nil {
				b.Fatal(err)
			}
			batch = batch[:0]
		}
	}
}
