package outbox_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	_ "github.com/carillonhq/carillon/server/store/postgres"
)

// TestNodesOfAClusterShareAnOutbox: one of two nodes reads, and has the other do what is in its partitions,
// and forget it. When the reader leaves, the other one reads.
func TestNodesOfAClusterShareAnOutbox(t *testing.T) {
	s := realserver.StartPostgres(t, realserver.Volatile()...)
	url, storeURL := installed(t, s), s.Database(t)
	c := session(t, url)
	var nodes []*server.Server
	var ends []func() error
	for i := range 2 {
		n, err := server.New(server.Config{Store: storeURL, Partitions: 8, Name: fmt.Sprint("node-", i),
			GRPC: "127.0.0.1:0", HTTP: server.None, DrainGrace: -1,
			Extensions: server.Extensions{Feeds: []server.Feed{feed(url)}}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- n.Run(ctx) }()
		nodes = append(nodes, n)
		ends = append(ends, func() error { cancel(); return <-ended })
	}
	realserver.Eventually(t, func() error {
		for i, n := range nodes {
			if owned := owns(t, n, fmt.Sprint("node-", i)); owned != 4 {
				return fmt.Errorf("a node has %d partitions", owned)
			}
		}
		return nil
	})
	put := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			if _, err := c.Exec(t.Context(), `SELECT carillon.put_job(jsonb_build_object('name', 'job/' || $1::int,
				'due_time', '1h', 'target', '{"worker": {"queue": "q"}}'::jsonb)), carillon.delete_job('none/' || $1)`,
				i); err != nil {
				t.Fatal(err)
			}
		}
		emptied(t, c)
	}
	put(0, 50)
	realserver.Eventually(t, func() error {
		if n := value[int](t, c, "SELECT count(*) FROM carillon.outbox_done"); n > 0 {
			return fmt.Errorf("%d rows of what is done are left", n)
		}
		return nil
	})
	if err := ends[0](); err != nil {
		t.Error(err)
	}
	put(50, 100)
	page, err := nodes[1].Scheduler().ListJobs(t.Context(), carillon.JobQuery{Prefix: "job/", PageSize: 1000})
	if err != nil || len(page.Jobs) != 100 {
		t.Errorf("%d jobs of 100, %v", len(page.Jobs), err)
	}
	if err := ends[1](); err != nil {
		t.Error(err)
	}
}

// owns returns how many partitions a node has, as the cluster knows.
func owns(t *testing.T, n *server.Server, id string) (owned int) {
	t.Helper()
	status, err := n.Cluster().ClusterStatus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range status.Partitions {
		if p.Node == id {
			owned++
		}
	}
	return owned
}
