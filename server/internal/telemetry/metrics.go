package telemetry

import (
	"net/http"
	"regexp"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

// buckets of the histograms: steps of 1, 2, 5.
var buckets = map[string][]float64{
	lateness:         {.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60},
	commits:          {.0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10},
	commitRecords:    {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000},
	clusterForwarded: clusterBuckets,
	clusterClaims:    clusterBuckets,
	clusterHandOvers: clusterBuckets,
	apiSeconds:       clusterBuckets,
	runSeconds:       {.005, .02, .1, .5, 1, 5, 15, 60, 300, 1800, 7200, 86400},
}

// clusterBuckets are of calls and of partitions on the move.
var clusterBuckets = []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30}

// Metrics are one node's. What is counted on the way of every run is resolved once: an event looks no label
// up.
type Metrics struct {
	registry   *prometheus.Registry
	counters   map[string]prometheus.Counter   // all without labels, by name
	histograms map[string]prometheus.Histogram // likewise

	scheduled prometheus.Counter
	fired     prometheus.Counter
	attempts  map[string]prometheus.Counter // by kind of target
	finished  map[carillon.RunStatus]prometheus.Counter
	retried   prometheus.Counter
	skipped   *prometheus.CounterVec
	staged    map[string]prometheus.Counter // by kind of target
	onStaged  atomic.Pointer[func(q delivery.Queue, n int)]
	lateness  prometheus.Histogram
	spans     *prometheus.CounterVec
	exemplars bool // of traces

	commits       prometheus.Histogram
	commitRecords prometheus.Histogram

	calls    *calls
	ends     *ends
	refusals *refusals
	payloads payloadCounters

	clusterStats atomic.Pointer[func() ClusterStats]
	outboxStats  atomic.Pointer[func() []OutboxStats]
	ingestStats  atomic.Pointer[func() []IngestStats]

	outboxes       struct{ done, rejected *prometheus.CounterVec }
	ingestMessages *prometheus.CounterVec
}

// New makes the metrics of a node whose program has the version.
func New(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), counters: map[string]prometheus.Counter{},
		histograms: map[string]prometheus.Histogram{}}
	m.registry.MustRegister(goRuntime(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, line := range table {
		switch {
		case line.Type == histogram && line.Labels == nil:
			m.histograms[line.Name] = prometheus.NewHistogram(histogramOf(line))
			m.registry.MustRegister(m.histograms[line.Name])
		case line.Type == counter && line.Labels == nil:
			m.counters[line.Name] = prometheus.NewCounter(prometheus.CounterOpts{Name: line.Name, Help: line.Help})
			m.registry.MustRegister(m.counters[line.Name])
		}
	}
	m.scheduled, m.fired, m.retried = m.counters[jobsScheduled], m.counters[runsFired], m.counters[runsRetried]
	m.attempts, m.staged = m.byKind(attempts), m.byKind(runsStaged)
	m.finished = map[carillon.RunStatus]prometheus.Counter{
		carillon.RunSucceeded: m.counters[runsSucceeded],
		carillon.RunFailed:    m.counters[runsFailed],
		carillon.RunDead:      m.counters[runsDead],
		carillon.RunCancelled: m.counters[runsCancelled],
	}
	m.skipped = m.labelled(runsSkipped)
	m.outboxes.done, m.outboxes.rejected = m.labelled(outboxDone), m.labelled(outboxRejected)
	m.ingestMessages = m.labelled(ingestMessages)
	m.lateness, m.spans = m.histograms[lateness], m.labelled(traceSpans)
	m.commits, m.commitRecords = m.histograms[commits], m.histograms[commitRecords]
	m.calls, m.ends, m.payloads = newCalls(m), newEnds(m), newPayloadCounters(m)
	m.refusals = newRefusals(m)
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: buildInfo, Help: metric(buildInfo).Help},
		metric(buildInfo).Labels)
	info.WithLabelValues(version, runtime.Version()).Set(1)
	m.registry.MustRegister(info)
	return m
}

// goRuntime are the metrics of the Go runtime; besides the usual ones, how long goroutines wait for a CPU,
// which tells a node that has too little of it, and how long the garbage collector stops all of them.
func goRuntime() prometheus.Collector {
	return collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.GoRuntimeMetricsRule{
		Matcher: regexp.MustCompile(`^/sched/(latencies|pauses/total/gc):seconds$`),
	}))
}

// byKind is a counter for each kind of target.
func (m *Metrics) byKind(name string) map[string]prometheus.Counter {
	all, kinds := m.labelled(name), map[string]prometheus.Counter{}
	for _, kind := range append([]string{"worker", "http", "dapr"}, delivery.BrokerKinds...) {
		kinds[kind] = all.WithLabelValues(kind)
	}
	return kinds
}

func (m *Metrics) labelled(name string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: metric(name).Help},
		metric(name).Labels)
	m.registry.MustRegister(c)
	return c
}

// labelledHistogram registers a histogram with labels.
func (m *Metrics) labelledHistogram(name string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(histogramOf(metric(name)), metric(name).Labels)
	m.registry.MustRegister(h)
	return h
}

// Native histograms, which a Prometheus that asks for them gets beside the classic buckets: values are told
// apart to within 10 %, by at most nativeBuckets buckets a series.
const (
	nativeFactor  = 1.1
	nativeBuckets = 100
	nativeReset   = time.Hour // the least between two resets of a series that has too many buckets
)

// histogramOf returns the options of a histogram.
func histogramOf(line Metric) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{Name: line.Name, Help: line.Help, Buckets: buckets[line.Name],
		NativeHistogramBucketFactor: nativeFactor, NativeHistogramMaxBucketNumber: nativeBuckets,
		NativeHistogramMinResetDuration: nativeReset}
}

// Scheduled counts jobs that were put.
func (m *Metrics) Scheduled(n int) { m.scheduled.Add(float64(n)) }

// Fired counts an attempt that was handed to a consumer.
func (m *Metrics) Fired(f delivery.Fired) {
	if f.Attempt == 1 {
		m.fired.Inc()
	}
	if f.Retry {
		m.retried.Inc()
	}
	if c := m.attempts[f.Queue.Kind]; c != nil {
		c.Inc()
	}
	m.observe(m.lateness, f.Lateness.Seconds(), f.Trace)
}

// OnStaged has f told of due runs that are put aside in the store; it must not block. There is one such f.
func (m *Metrics) OnStaged(f func(q delivery.Queue, n int)) { m.onStaged.Store(&f) }

// Staged counts due runs that are put aside in the store.
func (m *Metrics) Staged(q delivery.Queue, n int) {
	if c := m.staged[q.Kind]; c != nil {
		c.Add(float64(n))
	}
	if f := m.onStaged.Load(); f != nil {
		(*f)(q, n)
	}
}

// Skipped counts scheduled times that do not run.
func (m *Metrics) Skipped(reason string, n uint64) { m.skipped.WithLabelValues(reason).Add(float64(n)) }

// Finished counts a run that has ended.
func (m *Metrics) Finished(f delivery.Finished) {
	if c := m.finished[f.Status]; c != nil {
		c.Inc()
		m.ends.count(f, m.observe)
	}
}

// Committed measures a batch that has become durable, or counts one that has not.
func (m *Metrics) Committed(records int, took time.Duration, err error) {
	if err != nil {
		m.counters[commitFailures].Inc()
		return
	}
	m.commits.Observe(took.Seconds())
	m.commitRecords.Observe(float64(records))
}

// Add shows what others collect besides.
func (m *Metrics) Add(cs ...prometheus.Collector) { m.registry.MustRegister(cs...) }

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: m.exemplars})
}
