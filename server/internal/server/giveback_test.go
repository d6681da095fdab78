package server_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/sidecar"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// TestALeavingNodeGivesBackWhatSidecarsHold: a node leaves before a sidecar has answered, and its partitions
// have moved. The run is delivered by the new owner when the stream ends, not when nothing has been heard of
// the stream for 30 s.
func TestALeavingNodeGivesBackWhatSidecarsHold(t *testing.T) {
	database := realserver.StartPostgres(t, realserver.Volatile()...).Database(t)
	nodes := map[string]*server.Node{}
	config := func(name string) server.Config {
		return server.Config{Store: database, Name: name, Partitions: 4, DrainGrace: time.Millisecond,
			Sidecars: &server.Sidecars{Address: "127.0.0.1:0", API: func(n *server.Node, _ grpc.ServiceRegistrar) func() {
				nodes[name] = n
				return func() {}
			}}}
	}
	watch := func(name string) *sidecar.Session {
		t.Helper()
		s, err := sidecar.Open(nodes[name].Hub(), nodes[name], sidecar.Hello{Namespace: "default", AppID: "app", Jobs: true},
			sidecar.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	next := func(s *sidecar.Session) *carillon.Run {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		ds, err := s.Receive(ctx)
		if err != nil || len(ds) != 1 {
			t.Fatalf("%d runs came: %v", len(ds), err)
		}
		return ds[0].Run
	}
	a, endA := serveUntil(t, config("a"))
	spread(t, a, 1)
	first := watch("a")
	if _, err := nodes["a"].Remote().PutJob(t.Context(), carillon.Job{Name: "dapr/app/app/job",
		Target: carillon.Target{Dapr: &carillon.DaprTarget{AppID: "app"}}}); err != nil {
		t.Fatal(err)
	}
	run := next(first)
	b, endB := serveUntil(t, config("b"))
	t.Cleanup(endB)
	spread(t, b, 2)
	second := watch("b")
	endA()
	if again := next(second); again.ID != run.ID || again.Attempt != 1 {
		t.Errorf("attempt %d of %s came, not of %s", again.Attempt, again.ID, run.ID)
	}
	if err := second.Result(1, true, ""); err != nil {
		t.Error(err)
	}
}
