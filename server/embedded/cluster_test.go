package embedded_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/embedded"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/worker"
)

// member is a scheduler of an application's process, with a worker of its own.
type member struct {
	*embedded.Scheduler
	leave func()
}

// runs counts the runs of each job, and those of each member.
type runs struct {
	mu   sync.Mutex
	of   map[string]int
	by   map[string]int
	more chan struct{} // closed with the next one
}

func (r *runs) ran(member, job string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of[job]++
	r.by[member]++
	close(r.more)
	r.more = make(chan struct{})
}

// idle returns a member that has run nothing; empty if there is none.
func (r *runs) idle(members ...string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range members {
		if r.by[m] == 0 {
			return m
		}
	}
	return ""
}

// await waits until n jobs have run.
func (r *runs) await(t *testing.T, n int) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		r.mu.Lock()
		have, more := len(r.of), r.more
		r.mu.Unlock()
		if have >= n {
			return
		}
		select {
		case <-more:
		case <-late:
			t.Fatalf("%d of %d jobs have run", have, n)
		}
	}
}

// enter makes a process a member.
func enter(t *testing.T, url, name string, r *runs) *member {
	t.Helper()
	s, err := embedded.Open(t.Context(), url, embedded.Options{Partitions: 16,
		Cluster: &embedded.Cluster{Listen: "127.0.0.1:0", Name: name}})
	if err != nil {
		t.Fatal(err)
	}
	w := worker.New(s, worker.Options{Concurrency: 2})
	worker.Handle(w, "q", func(_ context.Context, run carillon.Run, _ carillon.Data) error {
		r.ran(name, run.Job)
		return nil
	})
	ctx, leave := context.WithCancel(context.Background())
	left := make(chan error, 1)
	go func() { left <- w.Run(ctx) }()
	return &member{s, sync.OnceFunc(func() {
		leave()
		if err := <-left; err != nil {
			t.Errorf("worker of %s: %v", name, err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Errorf("close %s: %v", name, err)
		}
	})}
}

func TestProcessesOnPostgreSQLAreACluster(t *testing.T) {
	cluster(t, realserver.StartPostgres(t, realserver.Volatile()...).Database(t))
}

func TestProcessesOnRedisAreACluster(t *testing.T) {
	cluster(t, "redis://"+realserver.StartRedis(t).Address())
}

func TestProcessesOnEtcdAreACluster(t *testing.T) {
	cluster(t, "etcd://"+realserver.StartEtcd(t, realserver.VolatileEtcd()...).Address())
}

func TestProcessesOnCassandraAreACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("it is long; go test without -short runs it")
	}
	cluster(t, "cassandra://"+realserver.StartCassandra(t).Address())
}

// cluster tests three processes of an application: whichever takes a put, each job runs once, at any of
// them, also while they come and go.
func cluster(t *testing.T, url string) {
	t.Helper()
	r := &runs{of: map[string]int{}, by: map[string]int{}, more: make(chan struct{})}
	a, b, c := enter(t, url, "a", r), enter(t, url, "b", r), enter(t, url, "c", r)
	defer a.leave()
	defer b.leave()
	defer c.leave()
	put := 0
	load := func(n int, through ...*member) {
		t.Helper()
		for range n {
			j := carillon.Job{Name: fmt.Sprint("job/", put), Target: carillon.WorkerQueue("q")}
			if _, err := through[put%len(through)].PutJob(t.Context(), j); err != nil {
				t.Fatal(err)
			}
			put++
		}
	}
	if _, err := embedded.Open(t.Context(), url, embedded.Options{}); err == nil ||
		!strings.Contains(err.Error(), `node "`) {
		t.Errorf("one that wants the store for itself: %v", err)
	}
	share := func(through *member, names ...string) { // its workers reach all nodes within seconds
		t.Helper()
		for late := time.After(time.Minute); r.idle(names...) != ""; {
			load(20, through)
			r.await(t, put)
			select {
			case <-late:
				t.Fatalf("%s runs nothing", r.idle(names...))
			default:
			}
		}
	}
	load(200, a, b, c)
	r.await(t, put)
	share(a, "a", "b", "c")
	load(50, a, b)
	c.leave()
	load(150, a, b)
	r.await(t, put)
	d := enter(t, url, "d", r)
	load(200, d)
	r.await(t, put)
	share(b, "d")
	d.leave()
	r.mu.Lock()
	defer r.mu.Unlock()
	for job, n := range r.of {
		if n != 1 {
			t.Errorf("%s ran %d times", job, n)
		}
	}
	for _, s := range []*member{a, b} {
		if err := s.Ready(); err != nil {
			t.Errorf("ready: %v", err)
		}
	}
}

func TestWrongClustersAreRefused(t *testing.T) {
	for _, c := range []struct {
		url  string
		of   embedded.Cluster
		want string
	}{
		{"pebble:" + t.TempDir(), embedded.Cluster{Listen: "127.0.0.1:0"}, "cluster: the store is of one process alone"},
		{"nothing://x", embedded.Cluster{Listen: "127.0.0.1:0"}, "is not supported"},
		{"postgres://localhost/x", embedded.Cluster{}, `cluster.listen: "" is no address`},
		{"postgres://localhost/x", embedded.Cluster{Listen: "10.0.0.7:7070"}, "cluster.listen: 10.0.0.7:7070 is reachable"},
		{"postgres://localhost/x", embedded.Cluster{Listen: "here"}, `cluster.listen: "here" is no address`},
		{"postgres://localhost/x", embedded.Cluster{Listen: "127.0.0.1:0", Name: "a b"}, "node_name"},
	} {
		_, err := embedded.Open(t.Context(), c.url, embedded.Options{Cluster: &c.of})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.of, err, c.want)
		}
	}
}
