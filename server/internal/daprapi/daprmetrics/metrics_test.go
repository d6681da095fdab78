package daprmetrics_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/daprapi/daprmetrics"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/internal/telemetry"
)

// limit is that of an actor type in a namespace.
func limit(ns, actorType, key string, n int) partition.Tally {
	return partition.Tally{Limit: delivery.ActorLimit(ns, actorType, key), InForce: n, Waiting: 2 * n,
		Throttled: uint64(3 * n)}
}

// busy is what is shown after everything has happened.
func busy(limits ...partition.Tally) string {
	node := telemetry.New("v1")
	m := daprmetrics.New(node, func() []partition.Tally { return limits })
	m.Sidecars(1)
	m.Sidecars(1)
	m.Sidecars(-1)
	m.Count(daprmetrics.Created, daprmetrics.KindJob)
	m.Count(daprmetrics.Created, daprmetrics.KindActor)
	m.Count(daprmetrics.CreatedFailed, daprmetrics.KindActor)
	m.Count(daprmetrics.Deleted, daprmetrics.KindJob)
	m.Count(daprmetrics.BulkDeleted, "")
	m.Count(daprmetrics.Triggered, daprmetrics.KindJob)
	m.Took(daprmetrics.KindJob, 100*time.Millisecond+999*time.Microsecond)
	m.Count(daprmetrics.Failed, daprmetrics.KindJob)
	m.Took(daprmetrics.KindJob, 600*time.Millisecond)
	m.Count(daprmetrics.Failed, daprmetrics.KindActor)
	m.Took(daprmetrics.KindActor, time.Hour)
	m.Count(daprmetrics.Undelivered, daprmetrics.KindActor)
	staged := node.Staged
	staged(delivery.Queue{Namespace: "a", Kind: "dapr", Address: "actor/cat"}, 4)
	staged(delivery.Queue{Namespace: "a", Kind: "dapr", Address: "app/actor"}, 2)
	staged(delivery.Queue{Namespace: "a", Kind: "worker", Address: "actor/cat"}, 9)
	m.Count(daprmetrics.SidecarErrors, daprmetrics.ErrorAuth)
	rec := httptest.NewRecorder()
	node.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	return rec.Body.String()
}

func TestWhatIsShown(t *testing.T) {
	text := busy(limit("a", "cat", "", 1), limit("a", "cat", "k", 2), limit("b", "cat", "", 10))
	for _, line := range []string{
		"dapr_scheduler_sidecars_connected 1",
		`dapr_scheduler_jobs_created_total{type="job"} 1`, `dapr_scheduler_jobs_created_total{type="actor"} 1`,
		`dapr_scheduler_jobs_created_failed_total{type="actor"} 1`,
		`dapr_scheduler_jobs_created_failed_total{type="job"} 0`, `dapr_scheduler_jobs_deleted_total{type="job"} 1`,
		"dapr_scheduler_jobs_bulk_deleted_total 1", `dapr_scheduler_jobs_triggered_total{type="job"} 1`,
		`dapr_scheduler_jobs_failed_total{type="job"} 1`, `dapr_scheduler_jobs_failed_total{type="actor"} 1`,
		`dapr_scheduler_jobs_undelivered_total{type="actor"} 5`,
		`dapr_scheduler_jobs_undelivered_total{type="job"} 2`, `carillon_runs_staged_total{kind="worker"} 9`,
		`carillon_runs_staged_total{kind="dapr"} 6`, `dapr_scheduler_trigger_latency_bucket{type="job",le="100"} 0`,
		`dapr_scheduler_trigger_latency_bucket{type="job",le="500"} 1`,
		`dapr_scheduler_trigger_latency_bucket{type="job",le="1000"} 2`,
		`dapr_scheduler_trigger_latency_bucket{type="actor",le="10000"} 0`,
		`dapr_scheduler_trigger_latency_bucket{type="actor",le="+Inf"} 1`,
		`dapr_scheduler_trigger_latency_sum{type="job"} 700`,
		`dapr_scheduler_sidecar_errors_total{reason="auth_failed"} 1`,
		`dapr_scheduler_sidecar_errors_total{reason="send_failed"} 0`,
		`dapr_scheduler_concurrency_inflight{concurrency_key="cat"} 11`,
		`dapr_scheduler_concurrency_inflight{concurrency_key="cat:k"} 2`,
		`dapr_scheduler_concurrency_pending{concurrency_key="cat"} 22`,
		`dapr_scheduler_concurrency_throttled_total{concurrency_key="cat"} 33`, "carillon_jobs_scheduled_total 0",
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("%q is not in:\n%s", line, text)
		}
	}
}

func TestEveryMetricIsInTheTable(t *testing.T) {
	text := busy(limit("a", "cat", "", 1))
	var shown, listed []string
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "# TYPE dapr_"); ok {
			shown = append(shown, "dapr_"+strings.TrimSpace(rest))
		}
	}
	for _, m := range daprmetrics.Table() {
		listed = append(listed, m.Name+" "+m.Type)
		if !strings.Contains(text, "# HELP "+m.Name+" "+m.Help) {
			t.Errorf("%s: no help", m.Name)
		}
	}
	slices.Sort(listed)
	if !slices.Equal(shown, listed) {
		t.Errorf("shown:  %q\nlisted: %q", shown, listed)
	}
}

func TestNotEveryLimitIsShown(t *testing.T) {
	limits := make([]partition.Tally, 1500)
	for i := range limits {
		limits[i] = limit("a", "cat", fmt.Sprint("k", i), 1)
	}
	if n := strings.Count(busy(limits...), "dapr_scheduler_concurrency_inflight{"); n != 1000 {
		t.Errorf("%d limits are shown", n)
	}
}

func TestEveryMetricIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/dapr.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range daprmetrics.Table() {
		labels := ""
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "`, `") + "`"
		}
		row := fmt.Sprintf("| `%s` | %s | %s | %s |", m.Name, m.Type, labels, m.Help)
		if !strings.Contains(string(text), row) {
			t.Errorf("docs/dapr.md lacks the row\n%s", row)
		}
	}
}
