package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/server"
	"github.com/carillonhq/carillon/internal/testing/realserver"
)

// TestAllNodesAreToldToEndAtOnce, as compose and Kubernetes do it, or shortly one after the other. What
// workers and endpoints have is finished within the grace: each result is taken, and is there when a node
// starts again.
func TestAllNodesAreToldToEndAtOnce(t *testing.T) {
	postgres := realserver.StartPostgres(t, realserver.Volatile()...)
	for _, n := range []int{1, 2, 3, 5} {
		for _, gap := range []time.Duration{0, 3 * time.Millisecond, 50 * time.Millisecond} {
			if n == 1 && gap > 0 {
				continue
			}
			t.Run(fmt.Sprintf("%d nodes %v apart", n, gap), func(t *testing.T) { allEnd(t, postgres.Database(t), n, gap) })
		}
	}
}

func allEnd(t *testing.T, database string, n int, gap time.Duration) {
	var hits atomic.Int32
	answer := make(chan struct{})
	endpoint := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		hits.Add(1)
		<-answer
	}))
	t.Cleanup(endpoint.Close)
	release := sync.OnceFunc(func() { close(answer) })
	t.Cleanup(release)
	const partitions = 16
	config := func(i int) server.Config {
		return server.Config{Store: database, Name: string(rune('a' + i)), Partitions: partitions, DrainGrace: patience,
			Targets: server.HTTPTargets{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}
	}
	all, ends := make([]*server.Server, n), make([]func(), n)
	for i := range n {
		all[i], ends[i] = serveUntil(t, config(i))
	}
	spread(t, all[0], n)
	eventually(t, "nothing moves any more", func() bool {
		status, err := all[0].Cluster().ClusterStatus(t.Context())
		return err == nil && !slices.ContainsFunc(status.Nodes, func(x carillon.Node) bool { return x.Owns > (partitions+n-1)/n })
	})

	const perNode, requests = 6, 6
	history := carillon.History{Runs: 1}
	var jobs []carillon.Job
	for i := range perNode * n {
		jobs = append(jobs, carillon.Job{Name: fmt.Sprint("job/", i), Target: carillon.WorkerQueue(queue), Lease: time.Hour, History: history})
	}
	for i := range requests {
		jobs = append(jobs, carillon.Job{Name: fmt.Sprint("request/", i), Timeout: time.Minute, History: history,
			Target: carillon.Target{HTTP: &carillon.HTTPTarget{URL: endpoint.URL}}})
	}
	if _, err := dial(t, all[0]).PutJobs(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	workers := make([]raw, n)
	runs := make([][]carillon.Run, n)
	for i := range n {
		w := &world{t: t, another: func() carillon.Scheduler { return dial(t, all[i]) }}
		workers[i] = w.connect(fmt.Sprint("worker", i), perNode)
	}
	for i := range n {
		workers[i].until(func(m carillon.WorkResponse) bool {
			runs[i] = append(runs[i], m.Runs...)
			return len(runs[i]) == perNode
		})
	}
	eventually(t, "all requests are under way", func() bool { return hits.Load() == requests })

	var ended sync.WaitGroup
	for i := range n {
		ended.Go(func() {
			<-time.After(time.Duration(i) * gap)
			ends[i]()
		})
	}
	eventually(t, "all are leaving", func() bool {
		for _, s := range all {
			if s.Ready() == nil {
				return false
			}
		}
		return true
	})
	release()
	for i, w := range workers {
		for _, run := range runs[i] {
			w.succeed(run)
			w.acked(run.Token)
		}
		w.close()
	}
	ended.Wait()

	again := serve(t, config(0))
	spread(t, again, 1)
	sched := dial(t, again)
	for _, j := range jobs {
		page, err := sched.ListRuns(t.Context(), carillon.RunQuery{Namespace: carillon.DefaultNamespace, Job: j.Name})
		if err != nil || len(page.Runs) != 1 || page.Runs[0].Status != carillon.RunSucceeded || page.Runs[0].Attempt != 1 {
			t.Errorf("%s: %+v, %v", j.Name, page.Runs, err)
		}
	}
	if hits.Load() != requests {
		t.Errorf("%d requests of %d runs", hits.Load(), requests)
	}
}
