package server_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/postgres"
)

// buffer is a log that may be read while it is written.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// count is how often the log has a text.
func (b *buffer) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.text.String(), text)
}

// TestNodeOfAReplacedStoreLeaves at once, however much grace it has: it has no terms, and waits for
// none. Until then it has said once that another store is in the place of its own.
func TestNodeOfAReplacedStoreLeaves(t *testing.T) {
	database := realserver.StartPostgres(t, realserver.Volatile()...)
	url := database.Database(t)
	var log buffer
	a, end := serveFailing(t, server.Config{Store: url, Name: "a", Partitions: 4, LeaseTTL: 2 * time.Second,
		DrainGrace: time.Hour,
		Log:        slog.New(slog.NewTextHandler(&log, nil))})
	eventually(t, "a owns everything", func() bool { return a.Ready() == nil })
	database.Exec(t, "test_1", "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
	eventually(t, "the terms are over", func() bool { return log.count("lost their terms") > 0 })
	other, err := postgres.Open(t.Context(), url, store.Options{Partitions: 8})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the node has met it more than once",
		func() bool { return log.count(postgres.ErrReplaced.Error()) > 3 })
	if err := end(); err != nil {
		t.Error(err)
	}
	said := func(what string) int {
		return log.count(`msg="the store cannot write" error="store: ` + what + ": " + postgres.ErrReplaced.Error())
	}
	if n := said("join") + said("claim partitions"); n != 1 {
		t.Errorf("it said so %d times", n)
	}
}

// TestLastResultOfALeavingNodeIsRelayed: a node leaves while a request to an endpoint is under way. What
// comes of it reaches the partition's new owner: the run has succeeded, and is not tried again.
func TestLastResultOfALeavingNodeIsRelayed(t *testing.T) {
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
			Targets: server.Targets{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}
	}
	a, endA := serveUntil(t, config("a"))
	spread(t, a, 1)
	job := carillon.Job{Name: "slow", Target: carillon.Target{HTTP: &carillon.HTTPTarget{URL: endpoint.URL}},
		Timeout: time.Minute,
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
	page, err := dial(t, b).ListRuns(t.Context(),
		carillon.RunQuery{Namespace: carillon.DefaultNamespace, Job: "slow"})
	if err != nil || len(page.Runs) != 1 || page.Runs[0].Status != carillon.RunSucceeded || hits.Load() != 1 {
		t.Errorf("runs %+v, %v, after %d requests", page.Runs, err, hits.Load())
	}
}

// TestNodeWithoutItsStoreLeaves soon, however much grace it has: nothing can be handed over, and no result
// become durable. What was acknowledged is there for the next life.
func TestNodeWithoutItsStoreLeaves(t *testing.T) {
	redis := realserver.StartRedis(t)
	config := server.Config{Store: "redis://" + redis.Address(), Name: "a", Partitions: 4,
		LeaseTTL: 2 * time.Second, DrainGrace: time.Hour}
	a, end := serveFailing(t, config)
	spread(t, a, 1)
	sched := dial(t, a)
	jobs := &rig{t: t, sched: sched, another: func() carillon.Scheduler { return sched }}
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
		if _, err := dial(t, b).GetJob(t.Context(),
			carillon.Key{Namespace: carillon.DefaultNamespace, Name: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAllNodesEndAtOnce, as compose and Kubernetes do it, or shortly one after the other. What
// workers and endpoints have is finished within the grace: each result is taken, and is there when a node
// starts again.
func TestAllNodesEndAtOnce(t *testing.T) {
	postgres := realserver.StartPostgres(t, realserver.Volatile()...)
	for _, n := range []int{1, 2, 3, 5} {
		for _, gap := range []time.Duration{0, 3 * time.Millisecond, 50 * time.Millisecond} {
			if n == 1 && gap > 0 {
				continue
			}
			t.Run(fmt.Sprintf("%d nodes %v apart", n, gap),
				func(t *testing.T) { allEnd(t, postgres.Database(t), n, gap) })
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
		return server.Config{Store: database, Name: string(rune('a' + i)), Partitions: partitions,
			DrainGrace: patience, Targets: server.Targets{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}
	}
	all, ends := make([]*server.Server, n), make([]func(), n)
	for i := range n {
		all[i], ends[i] = serveUntil(t, config(i))
	}
	spread(t, all[0], n)
	eventually(t, "nothing moves any more", func() bool {
		status, err := all[0].Cluster().ClusterStatus(t.Context())
		return err == nil && !slices.ContainsFunc(status.Nodes,
			func(x carillon.Node) bool { return x.Owns > (partitions+n-1)/n })
	})

	eventually(t, "batches over all partitions are taken", func() bool {
		var later []carillon.Job
		for i := range 8 * partitions {
			later = append(later, carillon.Job{Name: fmt.Sprint("later/", i), Due: carillon.In(time.Hour),
				Target: carillon.WorkerQueue(queue)})
		}
		_, err := dial(t, all[0]).PutJobs(t.Context(), later)
		return err == nil
	})

	const perNode, requests = 6, 6
	history := carillon.History{Runs: 1}
	var jobs []carillon.Job
	for i := range perNode * n {
		jobs = append(jobs, carillon.Job{Name: fmt.Sprint("job/", i), Target: carillon.WorkerQueue(queue),
			Lease: time.Hour, History: history})
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
		w := &rig{t: t, another: func() carillon.Scheduler { return dial(t, all[i]) }}
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
		page, err := sched.ListRuns(t.Context(),
			carillon.RunQuery{Namespace: carillon.DefaultNamespace, Job: j.Name})
		if err != nil || len(page.Runs) != 1 || page.Runs[0].Status != carillon.RunSucceeded ||
			page.Runs[0].Attempt != 1 {
			t.Errorf("%s: %+v, %v", j.Name, page.Runs, err)
		}
	}
	if hits.Load() != requests {
		t.Errorf("%d requests of %d runs", hits.Load(), requests)
	}
}

// TestANodeDoesNotWaitForConsumersThatHaveGone, however much grace it has: what they have stays in force, and they
// report to the next start.
func TestANodeDoesNotWaitForConsumersThatHaveGone(t *testing.T) {
	config := server.Config{Store: "pebble:" + filepath.Join(t.TempDir(), "store"), Partitions: 2,
		DrainGrace: time.Hour}
	s, stop := serveUntil(t, config)
	gone, err := client.Dial(s.GRPCAddr())
	if err != nil {
		t.Fatal(err)
	}
	session, err := gone.Connect(t.Context(),
		carillon.Hello{Namespace: carillon.DefaultNamespace, Queues: []string{queue}})
	if err == nil {
		err = session.Send(t.Context(), carillon.WorkRequest{Credits: []carillon.Credit{{Queue: queue, N: 1}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	w := &rig{t: t, sched: dial(t, s)}
	w.put(carillon.Job{Name: "long", Lease: time.Hour})
	var runs []carillon.Run
	for len(runs) == 0 {
		msg, err := session.Receive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		runs = msg.Runs
	}
	if err := gone.Close(); err != nil { // as if its process were killed
		t.Fatal(err)
	}
	stop()
	again := serve(t, config)
	r, err := dial(t, again).GetRun(t.Context(), carillon.DefaultNamespace, runs[0].ID)
	if err != nil || r.Status != carillon.RunRunning || r.Attempt != 1 {
		t.Errorf("%v in attempt %d, %v", r.Status, r.Attempt, err)
	}
}
