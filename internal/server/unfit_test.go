package server_test

import (
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/server"
	"github.com/carillonhq/carillon/internal/testing/realserver"
)

// TestANodeWhoseSQLFailsIsUnfit: its user may write that it lives, and may not take partitions. It gets none,
// status, readiness and a metric say so, and it has its share soon after it may.
func TestANodeWhoseSQLFailsIsUnfit(t *testing.T) {
	postgres := realserver.StartPostgres(t, realserver.Volatile()...)
	database := postgres.Database(t)
	all, _ := nodes(t, database, 2)
	spread(t, all[0], 2)
	name := database[strings.LastIndex(database, "/")+1:]
	name, _, _ = strings.Cut(name, "?")
	postgres.Exec(t, name, "CREATE ROLE poor LOGIN")
	postgres.Exec(t, name, "GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA public TO poor")
	postgres.Exec(t, name, "GRANT UPDATE, DELETE ON carillon_members TO poor")
	c := serve(t, server.Config{Store: strings.Replace(database, "postgres@", "poor@", 1), Name: "c", Partitions: 16})
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
	if n, whole := about(); n.State != carillon.NodeUnfit || !strings.Contains(n.Reason, "permission denied") || n.Owns != 0 || !whole {
		t.Errorf("status: %+v, all is owned: %v", n, whole)
	}
	if err := c.Ready(); err == nil || !strings.Contains(err.Error(), "unfit") {
		t.Errorf("ready: %v", err)
	}
	if _, text := get(t, "http://"+c.HTTPAddr()+"/metrics"); !strings.Contains(text, "\ncarillon_cluster_unfit 1\n") {
		t.Error("the metric does not say so")
	}
	w := &world{t: t, sched: dial(t, c)} // it serves callers through the others
	w.put(carillon.Job{Name: "job"})

	postgres.Exec(t, name, "GRANT ALL ON ALL TABLES IN SCHEMA public TO poor")
	spread(t, all[0], 3)
	eventually(t, "it is ready", func() bool { return c.Ready() == nil })
}
