package metrics

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"contrib.go.opencensus.io/exporter/prometheus"
	"github.com/dapr/dapr/pkg/proto/scheduler/v1"
	"github.com/dapr/dapr/pkg/scheduler/monitoring"
	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opencensus.io/stats/view"

	"github.com/carillonhq/carillon/server/internal/daprapi/daprmetrics"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/internal/telemetry"
)

// took is how long sidecars had runs: at each bound, right beside it, and elsewhere.
var took = []int{0, 1, 99, 100, 101, 250, 499, 500, 501, 999, 1000, 1001, 4999, 5000, 5001, 9999, 10_000, 10_001,
	3_600_000}

// TestLatencies: the same durations are shown in the same lines.
func TestLatencies(t *testing.T) {
	if err := monitoring.InitMetrics(); err != nil {
		t.Fatal(err)
	}
	registry := client.NewRegistry()
	if _, err := prometheus.NewExporter(prometheus.Options{Namespace: "dapr", Registry: registry}); err != nil {
		t.Fatal(err)
	}
	node := telemetry.New("v1")
	ours := daprmetrics.New(node, func() []partition.Tally { return nil })
	app := &scheduler.JobMetadata{Target: &scheduler.JobTargetMetadata{
		Type: &scheduler.JobTargetMetadata_Job{Job: &scheduler.TargetJob{}}}}
	actor := &scheduler.JobMetadata{Target: &scheduler.JobTargetMetadata{
		Type: &scheduler.JobTargetMetadata_Actor{Actor: &scheduler.TargetActorReminder{}}}}
	for i, ms := range took {
		d := time.Duration(ms) * time.Millisecond
		for range i%3 + 1 {
			monitoring.RecordTriggerDuration(app, d)
			ours.Took(daprmetrics.KindJob, d)
		}
		monitoring.RecordTriggerDuration(actor, d+time.Millisecond/2)
		ours.Took(daprmetrics.KindActor, d+time.Millisecond/2)
	}
	view.Find("") // theirs are recorded by a goroutine, one after the other; this is answered after them
	want := shown(t, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	got := shown(t, node.Handler())
	if len(want) != 2*8 || !slices.Equal(got, want) {
		t.Errorf("Dapr shows\n%s\nCarillon shows\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
}

// shown is the lines about latencies.
func shown(t *testing.T, h http.Handler) (lines []string) {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", http.NoBody))
	for line := range strings.Lines(rec.Body.String()) {
		if !strings.HasPrefix(line, "dapr_scheduler_trigger_latency") {
			continue
		}
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%s %.6f", name, number)) // theirs is the mean, times the count
	}
	slices.Sort(lines)
	return lines
}
