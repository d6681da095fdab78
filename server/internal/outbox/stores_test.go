package outbox_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	_ "github.com/carillonhq/carillon/server/store/redis"
)

// TestEveryStoreRemembersWhatIsDecided: wherever Carillon keeps its jobs, also over a restart. A command that comes
// back after its job is gone is not done again, and one that was refused is not done when it could be.
func TestEveryStoreRemembersWhatIsDecided(t *testing.T) {
	application := realserver.StartPostgres(t, realserver.Volatile()...)
	for name, store := range map[string]func(t *testing.T) string{
		"pebble": func(t *testing.T) string { return "pebble:" + t.TempDir() + "/store" },
		"redis":  func(t *testing.T) string { return "redis://" + realserver.StartRedis(t).Address() },
		"another PostgreSQL": func(t *testing.T) string {
			return realserver.StartPostgres(t, realserver.Volatile()...).Database(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			url, at := installed(t, application), store(t)
			c := session(t, url)
			exec(t, c, "UPDATE carillon.outbox_settings SET patience = '0'")
			exec(t, c, putOfName, "done")
			exec(t, c, "SELECT carillon.put_job($1)", `{"name": "refused", "schedule": "@daily", "except": ["holidays"],
				"target": {"worker": {"queue": "q"}}}`)
			exec(t, c, "CREATE TABLE copies AS SELECT id, namespace, name, job FROM carillon.outbox")
			n := start(t, at, feedFor(url, time.Hour))
			emptied(t, c)
			if job(t, n, "done") == nil || job(t, n, "refused") != nil {
				t.Error("the put is not done, or the refused one is")
			}
			if _, err := n.Scheduler().DeleteJob(t.Context(), carillon.Key{Name: "done"}); err != nil {
				t.Error(err)
			}
			if _, err := n.Scheduler().PutCalendar(t.Context(), carillon.Calendar{Name: "holidays",
				Dates: []string{"2030-12-24"}}); err != nil {
				t.Error(err)
			}
			stop(t, n)
			exec(t, c, "INSERT INTO carillon.outbox (id, namespace, name, job) SELECT * FROM copies")
			n = start(t, at, feedFor(url, time.Hour))
			defer stop(t, n)
			emptied(t, c)
			for _, name := range []string{"done", "refused"} {
				if job(t, n, name) != nil {
					t.Errorf("%s is there", name)
				}
			}
			const says = `there is no calendar "holidays" in the namespace; put it first`
			got := value[[]string](t, c, "SELECT array_agg(name || ' ' || reason) FROM carillon.outbox_rejects")
			if fmt.Sprint(got) != fmt.Sprint([]string{"refused " + says, "refused " + says}) {
				t.Errorf("rejects %q", got)
			}
		})
	}
}
