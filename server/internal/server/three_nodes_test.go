package server_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/worker"
)

// trio is three nodes of one store, each with a client that knows no other node.
type trio struct {
	t       *testing.T
	nodes   []*server.Server
	clients []*client.Client
	ends    []func()
	config  server.Config
	puts    int
}

func startTrio(t *testing.T, c server.Config, n int) *trio {
	t.Helper()
	c.Store, c.Partitions, c.DrainGrace = realserver.StartPostgres(t,
		realserver.Volatile()...).Database(t), 16, patience
	x := &trio{t: t, config: c}
	for range n {
		x.start()
	}
	spread(t, x.nodes[0], n)
	return x
}

// start adds a node.
func (x *trio) start() {
	x.t.Helper()
	c := x.config
	c.Name = string(rune('a' + len(x.nodes)))
	s, end := serveUntil(x.t, c)
	x.t.Cleanup(end)
	one, err := client.Dial(s.GRPCAddr(), client.WithOneAddress())
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() { _ = one.Close() })
	x.nodes, x.clients, x.ends = append(x.nodes, s), append(x.clients, one), append(x.ends, end)
}

// end ends a node.
func (x *trio) end(i int) {
	x.t.Helper()
	x.ends[i]()
	x.nodes, x.clients, x.ends = x.nodes[:i:i], x.clients[:i:i], x.ends[:i:i] // the last
}

// warned puts a job in every partition through every node, alone and in batches; it returns how many were
// told that nobody serves the queue, and of how many.
func (x *trio) warned(queue string) (warned, all int) {
	x.t.Helper()
	see := func(puts ...carillon.PutResult) {
		for _, p := range puts {
			if all++; strings.Contains(strings.Join(p.Warnings, "\n"), "nobody serves queue") {
				warned++
			}
		}
	}
	for _, c := range x.clients {
		var batch []carillon.Job
		for p := range x.config.Partitions {
			j := carillon.Job{Name: x.name(p), Target: carillon.WorkerQueue(queue), Due: carillon.In(time.Hour)}
			put, err := c.PutJob(x.t.Context(), j)
			if err != nil {
				x.t.Fatal(err)
			}
			see(put)
			j.Name = x.name(p)
			batch = append(batch, j)
		}
		puts, err := c.PutJobs(x.t.Context(), batch)
		if err != nil {
			x.t.Fatal(err)
		}
		see(puts...)
	}
	return warned, all
}

// name is that of a new job in a partition.
func (x *trio) name(partition int) string {
	for {
		x.puts++
		name := fmt.Sprint("later/", x.puts)
		if store.PartitionOf(carillon.Key{Namespace: carillon.DefaultNamespace, Name: name},
			x.config.Partitions) == partition {
			return name
		}
	}
}

// serve has a worker serve a queue through one node's address alone, until stop is called.
func (x *trio) serve(through carillon.Work, queue string, handle func() error) (stop func()) {
	x.t.Helper()
	w := worker.New(through, worker.Options{})
	worker.Handle(w, queue, func(context.Context, carillon.Run, []byte) error { return handle() })
	ctx, cancel := context.WithCancel(context.Background())
	x.t.Cleanup(cancel)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() {
		x.t.Helper()
		cancel()
		if err := await(x.t, ended); err != nil {
			x.t.Errorf("worker: %v", err)
		}
	}
}

// TestEveryNodeWarnsAlike: whichever takes a put, and whichever owns its partition, a queue that a worker of
// one node serves is served, and one that it has left is not.
func TestEveryNodeWarnsAlike(t *testing.T) {
	x := startTrio(t, server.Config{}.Arriving(time.Nanosecond), 3)
	if warned, all := x.warned("mail"); warned != all {
		t.Errorf("nobody serves it, and %d of %d puts were told so", warned, all)
	}
	stop := x.serve(x.clients[2], "mail", func() error { return nil })
	eventually(t, "every node knows of the worker", func() bool {
		warned, _ := x.warned("mail")
		return warned == 0
	})
	if warned, all := x.warned("other"); warned != all {
		t.Errorf("nobody serves another, and %d of %d puts were told so", warned, all)
	}
	stop()
	eventually(t, "every node knows that it has left", func() bool {
		warned, all := x.warned("mail")
		return warned == all
	})
}

// TestNodesThatComeAndGoWarnOfNothing: a worker is there all the time, at first by way of a node that leaves.
func TestNodesThatComeAndGoWarnOfNothing(t *testing.T) {
	x := startTrio(t, server.Config{}, 2)
	// The last node to come is the first that the worker comes through.
	anyone, err := client.Dial(x.nodes[1].GRPCAddr()+","+x.nodes[0].GRPCAddr(), client.WithOneAddress())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = anyone.Close() })
	t.Cleanup(x.serve(anyone, "mail", func() error { return nil }))
	for _, n := range x.nodes {
		eventually(t, "it is served", func() bool {
			return strings.Contains(metrics(t, n),
				"\ncarillon_queue_consumers{kind=\"worker\",namespace=\"default\",queue=\"mail\"} 1\n")
		})
	}
	none := func(when string) {
		t.Helper()
		if warned, all := x.warned("mail"); warned > 0 {
			t.Errorf("%s: %d of %d puts were told that nobody serves the queue", when, warned, all)
		}
	}
	none("before")
	x.start()
	for c := x.nodes[2]; c.Ready() != nil; {
		none("while a node comes")
	}
	none("when it has come")
	spread(t, x.nodes[0], 3)
	none("when it has its share")
	left := make(chan struct{})
	end := x.ends[2]
	x.nodes, x.clients = x.nodes[:2], x.clients[:2]
	go func() {
		defer close(left)
		end()
	}()
	for gone := false; !gone; {
		none("while a node leaves")
		select {
		case <-left:
			gone = true
		default:
		}
	}
	spread(t, x.nodes[0], 2)
	none("when it has left")
}

// TestMetricsOfThreeNodesAddUp: what is staged and dead, by the sum over all nodes, before and after one of
// them has left.
func TestMetricsOfThreeNodesAddUp(t *testing.T) {
	x := startTrio(t, server.Config{}, 3)
	stop := x.serve(x.clients[1], "doomed", func() error { return errors.New("no") })
	t.Cleanup(stop)
	const staged, dead = 48, 32
	for i := range staged {
		x.put(i, carillon.Job{Name: fmt.Sprint("lonely/", i), Target: carillon.WorkerQueue("lonely")})
	}
	for i := range dead {
		x.put(i, carillon.Job{Name: fmt.Sprint("doomed/", i), Target: carillon.WorkerQueue("doomed"),
			FailurePolicy: carillon.Constant(time.Second).WithMaxRetries(0)})
	}
	lonely := `{kind="worker",namespace="default",queue="lonely"}`
	check := func(when string) {
		t.Helper()
		var sums [4]int
		defer func() { t.Logf("%s: staged, of the queue, dead, waiting: %v", when, sums) }()
		eventually(t, when+": what is staged and dead adds up", func() bool {
			sums = [4]int{x.sum("carillon_staged_runs"), x.sum("carillon_queue_staged" + lonely),
				x.sum(`carillon_dead_runs{namespace="default"}`), x.sum("carillon_queue_depth" + lonely)}
			return sums == [4]int{staged, staged, dead, 0}
		})
		if got := x.sum("carillon_unserved_queues"); got != len(x.nodes) {
			t.Errorf("%s: %d queues are unserved; of each node one is", when, got)
		}
		if got := x.sum("carillon_partitions_owned"); got != x.config.Partitions {
			t.Errorf("%s: %d partitions are owned", when, got)
		}
	}
	check("three nodes")
	x.end(2)
	spread(t, x.nodes[0], 2)
	check("two nodes")
	x.start()
	spread(t, x.nodes[0], 3)
	check("three nodes again")
}

// put puts a job through one of the nodes.
func (x *trio) put(i int, j carillon.Job) {
	x.t.Helper()
	if _, err := x.clients[i%len(x.clients)].PutJob(x.t.Context(), j); err != nil {
		x.t.Fatal(err)
	}
}

// sum is a gauge of all nodes together.
func (x *trio) sum(name string) (sum int) {
	x.t.Helper()
	for _, n := range x.nodes {
		for line := range strings.Lines(metrics(x.t, n)) {
			if value, is := strings.CutPrefix(line, name+" "); is {
				v, err := strconv.Atoi(strings.TrimSpace(value))
				if err != nil {
					x.t.Fatal(err)
				}
				sum += v
			}
		}
	}
	return sum
}
