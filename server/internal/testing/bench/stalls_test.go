package bench

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
)

const (
	metricsBefore = `# HELP carillon_commit_seconds x
carillon_commit_seconds_bucket{le="0.001"} 100
carillon_commit_seconds_bucket{le="0.01"} 100
carillon_commit_seconds_bucket{le="0.1"} 100
carillon_commit_seconds_bucket{le="+Inf"} 100
carillon_commit_seconds_count 100
labelled_bucket{a="b",le="1"} 4
go_gc_duration_seconds{quantile="0.5"} 0.5
go_gc_duration_seconds_count 7
`
	metricsAfter = `carillon_commit_seconds_bucket{le="0.001"} 1090
carillon_commit_seconds_bucket{le="0.01"} 1099
carillon_commit_seconds_bucket{le="0.1"} 1099
carillon_commit_seconds_bucket{le="+Inf"} 1100
carillon_lateness_seconds_bucket{le="0.5"} 3
carillon_lateness_seconds_bucket{le="+Inf"} 3
go_gc_duration_seconds_count 9
`
)

func TestSpreads(t *testing.T) {
	before, err := parseMetrics(strings.NewReader(metricsBefore))
	if err != nil {
		t.Fatal(err)
	}
	after, err := parseMetrics(strings.NewReader(metricsAfter))
	if err != nil {
		t.Fatal(err)
	}
	for histogram, want := range map[string]*Spread{
		// the longest was longer than all bounds
		"carillon_commit_seconds":   {Count: 1000, P99: 1, P999: 10, Max: 100},
		"carillon_lateness_seconds": {Count: 3, P99: 500, P999: 500, Max: 500},
		"labelled":                  nil,
		"none":                      nil,
	} {
		if got := after.spread(before, histogram); (got == nil) != (want == nil) || (got != nil && *got != *want) {
			t.Errorf("%s: %+v, want %+v", histogram, got, want)
		}
	}
	if n := after.since(before, "go_gc_duration_seconds_count"); n != 2 {
		t.Errorf("%d collections", n)
	}
}

func TestScrapeOfWhatIsNoNode(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	if _, err := scrape(t.Context(), server.Listener.Addr().String()); err == nil {
		t.Error("a 404 is taken for metrics")
	}
}

// lateBy is a sink that says how late every run is.
type lateBy time.Duration

func (l lateBy) receive(*carillon.Run, time.Time) (time.Duration, bool) {
	return time.Duration(l), true
}

// In a bubble the timer is never late, so whatever is late is not the generator's.
func TestStallsTellWhoWasLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := newHistogram()
		late.record(40 * time.Millisecond)
		w := newStallWatch(lateBy(40*time.Millisecond), "", time.Now(), time.Second)
		if err := w.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-time.After(300 * time.Millisecond)
		w.receive(&carillon.Run{}, time.Now())
		w.receive(&carillon.Run{}, time.Now().Add(time.Hour)) // after the window
		s, err := w.end(t.Context(), late)
		if err != nil || s.Late != 1 || s.Shared != 0 || s.Generator.Max > 0.001 {
			t.Errorf("%+v, %v", s, err)
		}
		w.note(w.own, 25*time.Millisecond, w.start.Add(309*time.Millisecond)) // the slice before that of the run
		w.note(w.own, 5*time.Millisecond, w.start.Add(309*time.Millisecond))
		w.note(w.runs, 40*time.Millisecond, w.start.Add(310*time.Millisecond))
		if all, shared := w.shared(late); all != 2 || shared != 2 {
			t.Errorf("%d late, %d with the timer", all, shared)
		}
	})
}
