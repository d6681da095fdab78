package engine_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
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
				for i := range b.N {
					begin := time.Now().Add(5 * time.Second)
					n.spread(b, "greedy", i, greedy*seconds, begin, seconds*time.Second)
					n.spread(b, "calm", i, calm*seconds, begin, seconds*time.Second)
					time.Sleep(time.Until(begin.Add((seconds + 1) * time.Second)))
				}
				late := calmRuns.late()
				slices.Sort(late)
				b.ReportMetric(float64(late[len(late)/2].Microseconds()), "p50-µs")
				b.ReportMetric(float64(late[len(late)*99/100].Microseconds()), "p99-µs")
				b.ReportMetric(float64(len(late))/float64(b.N), "calm/op")
				b.ReportMetric(float64(len(greedyRuns.late()))/float64(b.N), "greedy/op")
				n.stop()
			})
		}
	}
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
