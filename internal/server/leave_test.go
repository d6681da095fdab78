package server_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/server"
	"github.com/carillonhq/carillon/internal/testing/realserver"
)

// TestALastAnswerIsPassedOn: a node leaves while a request to an endpoint is under way. What comes of it
// reaches the partition's new owner: the run has succeeded, and is not tried again.
func TestALastAnswerIsPassedOn(t *testing.T) {
	database := realserver.StartPostgres(t, realserver.Volatile()...).Database(t)
	var hits atomic.Int32
	begun, answer := make(chan struct{}, 1), make(chan struct{})
	endpoint := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		hits.Add(1)
		begun <- struct{}{}
		<-answer
	}))
	t.Cleanup(endpoint.Close)
	config := func(name string) server.Config {
		return server.Config{Store: database, Name: name, Partitions: 4, DrainGrace: patience,
			Targets: server.HTTPTargets{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}
	}
	a, endA := serveUntil(t, config("a"))
	spread(t, a, 1)
	job := carillon.Job{Name: "slow", Target: carillon.Target{HTTP: &carillon.HTTPTarget{URL: endpoint.URL}}, Timeout: time.Minute,
		History: carillon.History{Runs: 1}}
	if _, err := dial(t, a).PutJob(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	await(t, begun)
	b, endB := serveUntil(t, config("b"))
	t.Cleanup(endB)
	spread(t, b, 2)

	left := make(chan struct{})
	go func() {
		endA()
		close(left)
	}()
	eventually(t, "b owns everything", func() bool {
		status, err := b.Cluster().ClusterStatus(t.Context())
		if err != nil {
			return false
		}
		for _, n := range status.Nodes {
			if n.ID == "b" && n.Owns == len(status.Partitions) {
				return true
			}
		}
		return false
	})
	close(answer)
	await(t, left)
	page, err := dial(t, b).ListRuns(t.Context(), carillon.RunQuery{Namespace: carillon.DefaultNamespace, Job: "slow"})
	if err != nil || len(page.Runs) != 1 || page.Runs[0].Status != carillon.RunSucceeded || hits.Load() != 1 {
		t.Errorf("runs %+v, %v, after %d requests", page.Runs, err, hits.Load())
	}
}

// TestANodeWithoutItsStoreLeaves soon, however much grace it has: nothing can be handed over, and no result
// become durable. What was acknowledged is there for the next life.
func TestANodeWithoutItsStoreLeaves(t *testing.T) {
	redis := realserver.StartRedis(t)
	config := server.Config{Store: "redis://" + redis.Address(), Name: "a", Partitions: 4, LeaseTTL: 2 * time.Second, DrainGrace: time.Hour}
	a, end := serveFailing(t, config)
	spread(t, a, 1)
	sched := dial(t, a)
	jobs := &world{t: t, sched: sched, another: func() carillon.Scheduler { return sched }}
	jobs.put(carillon.Job{Name: "running", Target: carillon.WorkerQueue(queue)})
	jobs.put(carillon.Job{Name: "later", Due: carillon.In(time.Hour)})
	worker := jobs.connect("worker", 1)
	worker.until(func(m carillon.WorkResponse) bool { return len(m.Runs) == 1 })
	redis.Freeze(t)
	if err := end(); err == nil {
		t.Error("it says nothing of what it could not do")
	}
	redis.Thaw(t)
	config.DrainGrace = 0
	b := serve(t, config)
	spread(t, b, 1)
	for _, name := range []string{"running", "later"} {
		if _, err := dial(t, b).GetJob(t.Context(), carillon.Key{Namespace: carillon.DefaultNamespace, Name: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
