package embedded_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/embedded"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store"
	_ "github.com/carillonhq/carillon/server/store/cassandra"
	_ "github.com/carillonhq/carillon/server/store/etcd"
	_ "github.com/carillonhq/carillon/server/store/postgres"
	_ "github.com/carillonhq/carillon/server/store/redis"
	"github.com/carillonhq/carillon/worker"
)

func TestASchedulerOnPostgreSQL(t *testing.T) {
	sharedStore(t, realserver.StartPostgres(t, realserver.Volatile()...).Database(t))
}

func TestASchedulerOnRedis(t *testing.T) {
	sharedStore(t, "redis://"+realserver.StartRedis(t).Address())
}

func TestASchedulerOnEtcd(t *testing.T) {
	sharedStore(t, "etcd://"+realserver.StartEtcd(t, realserver.VolatileEtcd()...).Address())
}

func TestASchedulerOnCassandra(t *testing.T) {
	sharedStore(t, "cassandra://"+realserver.StartCassandra(t).Address())
}

// sharedStore tests a scheduler on a store that several processes can open: it runs jobs, no other scheduler
// and no node can use the store meanwhile, and the next one goes on with its jobs.
func sharedStore(t *testing.T, url string) {
	t.Helper()
	o := embedded.Options{Partitions: 4}
	s, err := embedded.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	runOne(t, s)
	later := carillon.Job{Name: "later", Schedule: "@daily", Target: carillon.WorkerQueue("q")}
	if _, err := s.PutJob(t.Context(), later); err != nil {
		t.Fatal(err)
	}

	if _, err := embedded.Open(t.Context(), url, o); err == nil ||
		!strings.Contains(err.Error(), "another process with an embedded scheduler") {
		t.Errorf("a second one: %v", err)
	}
	node := server.Config{Store: url, GRPC: "127.0.0.1:0", HTTP: server.None, Name: "node", DrainGrace: -1}
	if _, err := server.New(node); err == nil ||
		!strings.Contains(err.Error(), "a program with an embedded scheduler") {
		t.Errorf("a node: %v", err)
	}
	if err := s.Ready(); err != nil {
		t.Errorf("after the others were refused: %v", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	mustBeFree(t, url, o.Partitions)
	if s, err = embedded.Open(t.Context(), url, embedded.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.GetJob(t.Context(), carillon.Key{Namespace: "default", Name: "later"}); err != nil {
		t.Error(err)
	}
	runOne(t, s)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	n, err := server.New(node)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	if _, err := embedded.Open(t.Context(), url, o); err == nil ||
		!strings.Contains(err.Error(), `node "node" at 127.0.0.1:`) {
		t.Errorf("beside a node: %v", err)
	}
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// runOne puts a job and runs it with a worker of this process.
func runOne(t *testing.T, s *embedded.Scheduler) {
	t.Helper()
	ctx, leave := context.WithTimeout(t.Context(), time.Minute)
	defer leave()
	ran := false
	w := worker.New(s, worker.Options{})
	worker.Handle(w, "now", func(context.Context, carillon.Run, carillon.Data) error {
		ran = true
		leave()
		return nil
	})
	if _, err := s.PutJob(ctx, carillon.Job{Name: "now", Target: carillon.WorkerQueue("now")},
		carillon.Replace()); err != nil {
		t.Fatal(err)
	}
	if err := w.Run(ctx); err != nil || !ran {
		t.Errorf("the worker has run it: %v, and ended with %v", ran, err)
	}
}

// mustBeFree fails if somebody owns a partition of a store that nobody uses: the next one would wait for the
// lease to end.
func mustBeFree(t *testing.T, url string, partitions int) {
	t.Helper()
	st, err := store.Open(t.Context(), url, store.Options{Partitions: partitions})
	if err != nil {
		t.Fatal(err)
	}
	owners, err := st.Leaser().Owners(t.Context())
	if err := errors.Join(err, st.Close()); err != nil {
		t.Fatal(err)
	}
	for _, o := range owners {
		if o.Node != "" {
			t.Errorf("%s owns partition %d until %v, and has left", o.Node, o.Partition, o.Until)
		}
	}
}
