package telemetry_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
	"github.com/carillonhq/carillon/server/internal/telemetry"
)

func read(m *telemetry.Metrics) string {
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return rec.Body.String()
}

func queueOf(i int) delivery.Queue {
	return delivery.Queue{Namespace: "ns", Kind: "worker", Address: fmt.Sprintf("q%04d", i)}
}

// now is when the metrics are read.
var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// busy are metrics to which everything has happened.
func busy(queues int) *telemetry.Metrics {
	m := telemetry.New("v1")
	m.Scheduled(3)
	m.Fired(delivery.Fired{Queue: queueOf(0), Attempt: 1, Lateness: 3 * time.Millisecond})
	m.Fired(delivery.Fired{Queue: queueOf(0), Attempt: 2, Lateness: time.Hour, Retry: true})
	m.Fired(delivery.Fired{Queue: delivery.Queue{Kind: "of a later version"}, Attempt: 1})
	for s := carillon.RunScheduled; s <= carillon.RunSkipped; s++ {
		m.Finished(delivery.Finished{Queue: queueOf(0), Status: s, Took: time.Second})
	}
	m.Finished(delivery.Finished{Queue: queueOf(0), Status: carillon.RunCancelled, Took: -1})
	m.Called("rest", "PutJob", "OK", time.Millisecond)
	m.Streamed("grpc", "Work", "Unavailable")
	m.Spans("exported", 1)
	m.PayloadPut("done", 1000)
	m.PayloadGot("missing")
	m.PayloadsCollected("done", 3)
	m.OutboxDone("shop", 2)
	m.OutboxRejected("shop", 1)
	m.IngestCount("orders", "jobs", "done")
	m.WatchIngests(func() []telemetry.IngestStats {
		return []telemetry.IngestStats{{Ingest: "orders", Topic: "jobs", Connected: true, Lag: 3}}
	})
	m.WatchOutboxes(func() []telemetry.OutboxStats {
		return []telemetry.OutboxStats{{Name: "shop", Connected: true, Reading: true, Waiting: 3, Oldest: time.Second},
			{Name: "away"}}
	})
	m.Skipped("overlap", 5)
	m.QuotaRefused("shop", "jobs")
	m.Committed(10, 2*time.Millisecond, nil)
	m.Committed(1, time.Second, errors.New("no"))
	m.Watch(telemetry.Sources{
		Queues: func() []dispatch.QueueStats {
			all := make([]dispatch.QueueStats, queues)
			for i := range all {
				all[i] = dispatch.QueueStats{Queue: queueOf(i), Consumers: 2, Silent: 1, Credits: 2,
					InFlight: 3, Waiting: 4}
			}
			return all
		},
		Backlog: func() map[delivery.Queue]delivery.Backlog {
			return map[delivery.Queue]delivery.Backlog{
				queueOf(0): {Ready: 7, Permits: 6, Oldest: now.Add(-time.Second).UnixNano()}, queueOf(9999): {Staged: 8,
					Oldest: now.Add(-time.Hour).UnixNano()},
				{Namespace: "ns", Kind: "http", Address: "example.com"}: {Staged: 1, Oldest: now.UnixNano()},
			}
		},
		Dead: func() map[string]int { return map[string]int{"ns": 5} },
		Limits: func() []telemetry.Limit {
			return []telemetry.Limit{{Limit: delivery.Limit{Namespace: "ns", Key: "db"}, Held: 1, Of: 2}}
		},
		Rates: func() []telemetry.Rate {
			return []telemetry.Rate{{Namespace: "ns", Home: true, Left: 3, Burst: 9, Waiting: 2},
				{Namespace: "ns", Key: "far", Waiting: 7}}
		},
		Missing: func() int { return 4 }, Backfills: func() int { return 3 },
		Jobs: func() map[carillon.Phase]int { return map[carillon.Phase]int{carillon.PhasePaused: 6} },
		Now:  func() time.Time { return now },
		Workers: func() []dispatch.WorkerStats {
			return append(slices.Repeat([]dispatch.WorkerStats{{Kind: "worker"}}, 6),
				dispatch.WorkerStats{Kind: "dapr"})
		},
		Load:       func() (int, int, int) { return 9, 7, 8 },
		Partitions: func() (int, int) { return 63, 64 },
		Trouble:    func() time.Duration { return 90 * time.Second },
		Damaged:    func() int { return 2 },
		Requests:   func() (reads, writes int64) { return 70, 8 },
	})
	return m
}

func TestEveryMetricIsInTheTable(t *testing.T) {
	text := read(busy(1))
	var shown []string
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "# TYPE carillon_"); ok {
			shown = append(shown, "carillon_"+strings.TrimSpace(rest))
		}
	}
	var listed []string
	for _, m := range telemetry.Table() {
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

func TestWhatIsCounted(t *testing.T) {
	text := read(busy(1))
	for _, line := range []string{
		"carillon_jobs_scheduled_total 3", "carillon_runs_fired_total 2",
		`carillon_attempts_total{kind="worker"} 2`, "carillon_runs_succeeded_total 1",
		"carillon_runs_failed_total 1", "carillon_runs_dead_total 1", "carillon_runs_cancelled_total 2",
		"carillon_runs_retried_total 1", `carillon_runs_skipped_total{reason="overlap"} 5`,
		`carillon_lateness_seconds_bucket{le="0.005"} 2`, `carillon_lateness_seconds_bucket{le="60"} 2`,
		"carillon_lateness_seconds_count 3", "carillon_commit_seconds_count 1", "carillon_commit_records_sum 10",
		"carillon_commit_failures_total 1", "carillon_resident_jobs 7", "carillon_window_bytes 8",
		"carillon_runs_in_flight 9", "carillon_partitions 64", "carillon_partitions_owned 63",
		"carillon_store_writable 0", "carillon_store_away_seconds 90", "carillon_store_damaged_tables 2", "carillon_workers 6", "carillon_queues 3",
		"carillon_staged_runs 9", `carillon_dead_runs{namespace="ns"} 5`, "carillon_missing_jobs 4", `carillon_jobs{phase="paused"} 6`, `carillon_jobs{phase="scheduled"} 0`,
		"carillon_backfills 3", `carillon_run_outcomes_total{kind="worker",namespace="ns",outcome="dead",queue="q0000"} 1`,
		`carillon_run_outcomes_total{kind="worker",namespace="ns",outcome="cancelled",queue="q0000"} 2`,
		`carillon_run_seconds_count{kind="worker",namespace="ns",queue="q0000"} 4`,
		`carillon_run_seconds_bucket{kind="worker",namespace="ns",queue="q0000",le="1"} 4`,
		`carillon_api_calls_total{api="rest",code="OK",method="PutJob"} 1`,
		`carillon_api_calls_total{api="grpc",code="Unavailable",method="Work"} 1`,
		`carillon_api_call_seconds_count{api="rest",method="PutJob"} 1`,
		"carillon_unserved_queues 1", `carillon_limit_held{key="db",namespace="ns"} 1`,
		`carillon_limit_of{key="db",namespace="ns"} 2`,
		`carillon_rate_waiting{key="",namespace="ns"} 2`, `carillon_rate_left{key="",namespace="ns"} 3`,
		`carillon_rate_burst{key="",namespace="ns"} 9`, `carillon_rate_waiting{key="far",namespace="ns"} 7`,
		`carillon_queue_silent_consumers{kind="worker",namespace="ns",queue="q0000"} 1`,
		`carillon_queue_depth{kind="worker",namespace="ns",queue="q0000"} 7`,
		`carillon_queue_permits_awaited{kind="worker",namespace="ns",queue="q0000"} 6`,
		`carillon_queue_oldest_seconds{kind="worker",namespace="ns",queue="q0000"} 1`,
		`carillon_queue_staged{kind="worker",namespace="ns",queue="q9999"} 8`,
		`carillon_queue_oldest_seconds{kind="worker",namespace="ns",queue="q9999"} 3600`,
		`carillon_queue_consumers{kind="worker",namespace="ns",queue="q9999"} 0`,
		`carillon_queue_credits{kind="worker",namespace="ns",queue="q0000"} 2`, "go_goroutines",
	} {
		if !strings.Contains(text, "\n"+line+"\n") && !strings.Contains(text, "\n"+line+" ") {
			t.Errorf("%q is not in:\n%s", line, text)
		}
	}
}

// TestOnlyTheHomeOfARateShowsItsPermits: over all nodes each is there once.
func TestOnlyTheHomeOfARateShowsItsPermits(t *testing.T) {
	if text := read(busy(1)); strings.Contains(text, `carillon_rate_left{key="far"`) ||
		strings.Contains(text, `carillon_rate_burst{key="far"`) {
		t.Error("permits are shown of a rate whose home is elsewhere")
	}
}

func TestNotEveryQueueIsShown(t *testing.T) {
	text := read(busy(1500))
	if n := strings.Count(text, "carillon_queue_credits{"); n != 1000 {
		t.Errorf("%d queues are shown", n)
	}
	if !strings.Contains(text, "carillon_queues 1502") {
		t.Error("their number is not shown")
	}
	if !strings.Contains(text, `carillon_queue_staged{kind="worker",namespace="ns",queue="q9999"} 8`) {
		t.Error("a queue in which runs wait is not shown")
	}
}

func TestALogger(t *testing.T) {
	for asJSON, want := range map[bool]string{false: "level=WARN msg=hello k=1",
		true: `"level":"WARN","msg":"hello","k":1`} {
		var b bytes.Buffer
		log := telemetry.NewLogger(&b, asJSON, slog.LevelWarn)
		log.Info("not this")
		log.Warn("hello", "k", 1)
		if s := b.String(); !strings.Contains(s, want) || strings.Contains(s, "not this") {
			t.Errorf("JSON %t: %s", asJSON, s)
		}
	}
}

func BenchmarkFired(b *testing.B) {
	m := telemetry.New("v1")
	f := delivery.Fired{Queue: queueOf(0), Attempt: 1, Lateness: 3 * time.Millisecond}
	done := delivery.Finished{Queue: f.Queue, Status: carillon.RunSucceeded, Took: 20 * time.Millisecond}
	b.ReportAllocs()
	for b.Loop() {
		m.Fired(f)
		m.Finished(done)
	}
}

// TestHistogramsAreNativeToo: who asks for protobuf gets the buckets of a native histogram beside the classic
// ones.
func TestHistogramsAreNativeToo(t *testing.T) {
	req := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	req.Header.Set("Accept",
		"application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=text")
	rec := httptest.NewRecorder()
	busy(1).Handler().ServeHTTP(rec, req)
	text := rec.Body.String()
	begins := regexp.MustCompile(`(?m)^name:\s*"`).FindAllStringIndex(text, -1)
	families := map[string]string{}
	for i, at := range begins {
		end := len(text)
		if i+1 < len(begins) {
			end = begins[i+1][0]
		}
		name, rest, _ := strings.Cut(text[at[1]:end], `"`)
		families[name] = rest
	}
	for _, m := range telemetry.Table() {
		if m.Type != "histogram" || strings.HasPrefix(m.Name, "carillon_cluster_") { // nothing is in these
			continue
		}
		if f := families[m.Name]; !strings.Contains(f, "positive_span") || !strings.Contains(f, "upper_bound") {
			t.Errorf("%s: %.500s", m.Name, f)
		}
	}
}
