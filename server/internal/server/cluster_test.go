package server_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/worker"
)

// TestNodeWhoseSQLFailsIsUnfit: its user may write that it lives, and may not take partitions. It gets none,
// status, readiness and a metric say so, and it has its share soon after it may.
func TestNodeWhoseSQLFailsIsUnfit(t *testing.T) {
	postgres := realserver.StartPostgres(t, realserver.Volatile()...)
	database := postgres.Database(t)
	all, _ := nodes(t, database, 2)
	spread(t, all[0], 2)
	name := database[strings.LastIndex(database, "/")+1:]
	name, _, _ = strings.Cut(name, "?")
	postgres.Exec(t, name, "CREATE ROLE poor LOGIN")
	postgres.Exec(t, name, "GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA public TO poor")
	postgres.Exec(t, name, "GRANT UPDATE, DELETE ON carillon_members TO poor")
	c := serve(t, server.Config{Store: strings.Replace(database, "postgres@", "poor@", 1),
		Name: "c", Partitions: 16})
	about := func() (c carillon.Node, whole bool) {
		status, err := dial(t, all[0]).ClusterStatus(t.Context())
		if err != nil {
			return c, false
		}
		owned := 0
		for _, n := range status.Nodes {
			if owned += n.Owns; n.ID == "c" {
				c = n
			}
		}
		return c, owned == len(status.Partitions)
	}
	if n, whole := about(); n.State != carillon.NodeUnfit ||
		!strings.Contains(n.Reason, "permission denied") || n.Owns != 0 || !whole {
		t.Errorf("status: %+v, all is owned: %v", n, whole)
	}
	if err := c.Ready(); err == nil || !strings.Contains(err.Error(), "unfit") {
		t.Errorf("ready: %v", err)
	}
	if _, text := get(t, "http://"+c.HTTPAddr()+"/metrics"); !strings.Contains(text,
		"\ncarillon_cluster_unfit 1\n") {
		t.Error("the metric does not say so")
	}
	w := &rig{t: t, sched: dial(t, c)} // it serves callers through the others
	w.put(carillon.Job{Name: "job"})

	postgres.Exec(t, name, "GRANT ALL ON ALL TABLES IN SCHEMA public TO poor")
	spread(t, all[0], 3)
	eventually(t, "it is ready", func() bool { return c.Ready() == nil })
}

// nodes starts so many nodes on one store, a to z; ends are in their order.
func nodes(t *testing.T, url string, n int) (all []*server.Server, ends []func()) {
	t.Helper()
	for i := range n {
		s, end := serveUntil(t, server.Config{Store: url, Name: string(rune('a' + i)), Partitions: 16,
			DrainGrace: patience})
		t.Cleanup(end)
		all, ends = append(all, s), append(ends, end)
	}
	return all, ends
}

// spread waits until every partition is owned by one of the living nodes, and each of them owns some.
func spread(t *testing.T, asked *server.Server, living int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d nodes own all partitions", living), func() bool {
		status, err := asked.Cluster().ClusterStatus(t.Context())
		if err != nil || len(status.Nodes) != living {
			return false
		}
		owned := 0
		for _, n := range status.Nodes {
			if owned += n.Owns; n.Owns == 0 {
				return false
			}
		}
		return owned == len(status.Partitions) && asked.Ready() == nil
	})
}

// TestThreeNodes: three nodes on one database are one scheduler, and go on to be when one of them ends.
func TestThreeNodes(t *testing.T) {
	database := realserver.StartPostgres(t, realserver.Volatile()...).Database(t)
	all, ends := nodes(t, database, 3)
	spread(t, all[0], 3)

	// What is put through any node is read through any other.
	for i := range 30 {
		w := &rig{t: t, sched: dial(t, all[i%3])}
		w.put(carillon.Job{Name: fmt.Sprint("job/", i), Due: carillon.In(time.Hour)})
		w.sched = dial(t, all[(i+1)%3])
		w.hasJobs([]string{fmt.Sprint("job/", i)})
	}
	// A batch has jobs of all partitions.
	var batch []carillon.Job
	for i := range 50 {
		batch = append(batch, carillon.Job{Name: fmt.Sprint("batch/", i), Due: carillon.In(time.Hour),
			Target: carillon.WorkerQueue(queue)})
	}
	if puts, err := dial(t, all[1]).PutJobs(t.Context(), batch); err != nil || len(puts) != len(batch) {
		t.Fatalf("batch: %d, %v", len(puts), err)
	}

	// Workers of every node do the work of all.
	ran := make(chan string, 1000)
	relayed, err := client.Dial(all[0].GRPCAddr(), client.WithOneAddress())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = relayed.Close() })
	for _, sched := range []carillon.Work{dial(t, all[1]), relayed} {
		w := &rig{t: t}
		stop := w.work(sched, worker.Options{}, func(_ context.Context, run carillon.Run, _ []byte) error {
			ran <- run.Job
			return nil
		})
		t.Cleanup(stop)
	}
	now := make([]carillon.Job, 60) // of all partitions
	for i := range now {
		now[i] = carillon.Job{Name: fmt.Sprint("now/", i), Target: carillon.WorkerQueue(queue)}
	}
	if _, err := dial(t, all[2]).PutJobs(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	for range now {
		await(t, ran)
	}
	calls := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // calls go on while a node leaves
		sched := dial(t, all[0])
		for i := 0; ; i++ {
			select {
			case <-calls:
				return
			default:
			}
			if _, err := sched.PutJob(t.Context(), carillon.Job{Name: fmt.Sprint("meanwhile/", i),
				Due: carillon.In(time.Hour), Target: carillon.WorkerQueue(queue)}); err != nil {
				t.Errorf("put while a node leaves: %v", err)
				return
			}
		}
	})
	ends[2]()
	spread(t, all[0], 2)
	close(calls)
	wg.Wait()
	deleted, err := dial(t, all[1]).DeleteJobs(t.Context(), carillon.DefaultNamespace, "batch/")
	if err != nil || deleted != len(batch) {
		t.Errorf("%d of %d deleted, %v", deleted, len(batch), err)
	}
}

// TestNodeNameIsUnique: a second process under the name of a living node is refused.
func TestNodeNameIsUnique(t *testing.T) {
	database := realserver.StartPostgres(t, realserver.Volatile()...).Database(t)
	all, _ := nodes(t, database, 1)
	spread(t, all[0], 1)
	_, err := server.New(server.Config{Store: database, Name: "a", GRPC: "127.0.0.1:0", HTTP: server.None})
	if err == nil || !strings.Contains(err.Error(), "node_name") ||
		!strings.Contains(err.Error(), all[0].GRPCAddr()) {
		t.Errorf("a second node of the name: %v", err)
	}
	if err := all[0].Ready(); err != nil {
		t.Errorf("the first: %v", err)
	}
}

// TestNodesOfOneStoreShareSettings: one with other leases is refused by the name of its flag, one with
// other targets is warned of.
func TestNodesOfOneStoreShareSettings(t *testing.T) {
	database := realserver.StartPostgres(t, realserver.Volatile()...).Database(t)
	all, _ := nodes(t, database, 1)
	config := server.Config{Store: database, Name: "other", GRPC: "127.0.0.1:0", HTTP: server.None,
		LeaseTTL: 10 * time.Second}
	_, err := server.New(config)
	if err == nil || !strings.Contains(err.Error(), "--lease-ttl 10s") || !strings.Contains(err.Error(), "4s") {
		t.Fatalf("with other leases: %v", err)
	}
	config.LeaseTTL, config.Targets.Allow = 0, []netip.Prefix{netip.MustParsePrefix("10.1.2.3/8")}
	_, end := serveUntil(t, config)
	t.Cleanup(end)
	spread(t, all[0], 2)
	status, err := dial(t, all[0]).ClusterStatus(t.Context())
	want := "--allow-target differs: 10.0.0.0/8 on other; none on a"
	if err != nil || len(status.Warnings) != 1 || status.Warnings[0] != want {
		t.Errorf("warnings %q, %v", status.Warnings, err)
	}
}
