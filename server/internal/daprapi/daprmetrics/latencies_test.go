package daprmetrics_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/daprapi/daprmetrics"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/internal/telemetry"
)

// TestLatenciesAtABound: a value at a bound counts above it, as with OpenCensus.
func TestLatenciesAtABound(t *testing.T) {
	node := telemetry.New("v1")
	m := daprmetrics.New(node, func() []partition.Tally { return nil })
	bounds := []int{100, 500, 1000, 5000, 10000}
	for _, bound := range bounds {
		for _, ms := range []int{bound - 1, bound, bound + 1} {
			m.Took(daprmetrics.KindActor, time.Duration(ms)*time.Millisecond)
		}
	}
	rec := httptest.NewRecorder()
	node.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	for i, bound := range append(bounds, 0) {
		le := fmt.Sprint(bound)
		n := 3*i + 1
		if bound == 0 {
			le, n = "+Inf", 15
		}
		if line := fmt.Sprintf("\ndapr_scheduler_trigger_latency_bucket{type=\"actor\",le=%q} %d\n", le,
			n); !strings.Contains(rec.Body.String(), line) {
			t.Errorf("%q is not in:\n%s", line, rec.Body)
		}
	}
}
