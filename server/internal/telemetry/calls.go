package telemetry

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// calls counts calls of the APIs and measures them. Their labels are few: methods are those that a service
// has, codes are gRPC's. A call reads the series without a lock; the first with its labels makes them.
type calls struct {
	counts *prometheus.CounterVec
	took   *prometheus.HistogramVec

	mu     sync.Mutex                          // of those who make series
	series atomic.Pointer[map[call]callSeries] // the map is never changed
}

// call is what calls are told apart by.
type call struct{ api, method, code string }

// callSeries are the series of a call.
type callSeries struct {
	count prometheus.Counter
	took  prometheus.Observer
}

// newCalls registers the metrics.
func newCalls(m *Metrics) *calls {
	c := &calls{counts: m.labelled(apiCalls), took: m.labelledHistogram(apiSeconds)}
	c.series.Store(&map[call]callSeries{})
	return c
}

// find returns the series of a call.
func (c *calls) find(k call) callSeries {
	if s, ok := (*c.series.Load())[k]; ok {
		return s
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := callSeries{c.counts.WithLabelValues(k.api, k.method, k.code), c.took.WithLabelValues(k.api, k.method)}
	next := maps.Clone(*c.series.Load())
	next[k] = s
	c.series.Store(&next)
	return s
}

// Called counts a call of an API that has ended with a code, and measures how long it took.
func (m *Metrics) Called(api, method, code string, took time.Duration) {
	s := m.calls.find(call{api, method, code})
	s.count.Inc()
	s.took.Observe(took.Seconds())
}

// Streamed counts a stream that has ended with a code. How long it was open is no latency.
func (m *Metrics) Streamed(api, method, code string) {
	m.calls.find(call{api, method, code}).count.Inc()
}
