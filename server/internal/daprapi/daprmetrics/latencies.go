package daprmetrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// latencyBounds are Dapr's, in milliseconds.
var latencyBounds = []float64{100, 500, 1000, 5000, 10000}

// latencies is a histogram in which a value that lies at a bound counts above it, although Prometheus'
// buckets have their upper bounds. So OpenCensus counts, and Dapr's scheduler by it: what took 100 ms is not
// shown in the bucket of 100.
type latencies struct {
	desc *prometheus.Desc

	mu    sync.Mutex
	kinds map[string]*distribution
}

// distribution is how often values were between two bounds each.
type distribution struct {
	counts []uint64 // by bound, without those below it; what is above all is in total only
	total  uint64
	sum    float64
}

// newLatencies returns a histogram that shows every kind before it has a value.
func newLatencies(name string) *latencies {
	l := &latencies{desc: prometheus.NewDesc(name, metric(name).Help, metric(name).Labels, nil),
		kinds: map[string]*distribution{}}
	for _, kind := range labelValues["type"] {
		l.kinds[kind[0]] = &distribution{counts: make([]uint64, len(latencyBounds))}
	}
	return l
}

func (l *latencies) observe(kind string, value float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.kinds[kind]
	d.total++
	d.sum += value
	for i, bound := range latencyBounds {
		if value < bound {
			d.counts[i]++
			return
		}
	}
}

// Describe implements [prometheus.Collector].
func (l *latencies) Describe(to chan<- *prometheus.Desc) { to <- l.desc }

// Collect implements [prometheus.Collector].
func (l *latencies) Collect(to chan<- prometheus.Metric) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for kind, d := range l.kinds {
		below, buckets := uint64(0), map[float64]uint64{}
		for i, bound := range latencyBounds {
			below += d.counts[i]
			buckets[bound] = below
		}
		to <- prometheus.MustNewConstHistogram(l.desc, d.total, d.sum, buckets, kind)
	}
}
