package telemetry

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
)

// Sources are asked when somebody reads the metrics.
type Sources struct {
	Queues  func() []dispatch.QueueStats
	Workers func() []dispatch.WorkerStats
	// attempts in force, records in memory, bytes of their specs
	Load       func() (inFlight, resident, bytes int)
	Backlog    func() map[delivery.Queue]delivery.Backlog
	Dead       func() map[string]int // by namespace
	Limits     func() []Limit        // of concurrency keys, ordered
	Rates      func() []Rate         // ordered
	Missing    func() int            // names that jobs wait for and that no job has
	Jobs       func() map[carillon.Phase]int
	Backfills  func() int // that have not ended
	Now        func() time.Time
	Partitions func() (owned, all int)
	Trouble    func() time.Duration // for how long the store has not been able to write; 0 if it can
	Damaged    func() int           // tables of the store that are damaged
	Requests   func() (reads, writes int64)
}

// Watch adds the figures of the sources, once.
func (m *Metrics) Watch(s Sources) {
	m.registry.MustRegister(&collector{sources: s, metrics: m, limits: newLimits(), rates: newLimits()})
}

// maxQueues is the most queues, and the most namespaces, of one reading.
const maxQueues = 1000

// collector reads the sources.
type collector struct {
	sources Sources
	metrics *Metrics
	limits  *limits
	rates   *limits
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range descs {
		out <- d
	}
}

// descs are the descriptions of what is read, by name.
var descs = func() map[string]*prometheus.Desc {
	out := map[string]*prometheus.Desc{}
	for _, m := range table {
		if m.Type == gauge && m.Name != buildInfo || m.Name == storeRequests {
			out[m.Name] = prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)
		}
	}
	return out
}()

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	show := func(name string, n int, labels ...string) {
		out <- prometheus.MustNewConstMetric(descs[name], prometheus.GaugeValue, float64(n), labels...)
	}
	attempts, records, bytes := c.sources.Load()
	show(inFlight, attempts)
	show(residentJobs, records)
	show(windowBytes, bytes)
	show(workers, c.workers())
	writable, away := 1, c.sources.Trouble()
	if away > 0 {
		writable = 0
	}
	show(storeWritable, writable)
	out <- prometheus.MustNewConstMetric(descs[storeAway], prometheus.GaugeValue, away.Seconds())
	show(storeDamaged, c.sources.Damaged())
	c.requests(out)
	owned, parts := c.sources.Partitions()
	show(partitionsOwned, owned)
	show(partitionsAll, parts)
	c.cluster(out, show)
	c.outboxes(out, show)
	c.ingests(show)
	show(missingJobs, c.sources.Missing())
	jobs := c.sources.Jobs()
	for phase := carillon.PhaseScheduled; phase <= carillon.PhaseWaiting; phase++ {
		show(jobsByPhase, jobs[phase], phase.String())
	}
	show(backfills, c.sources.Backfills())
	dead := c.sources.Dead()
	namespaces := slices.Sorted(maps.Keys(dead))
	for _, ns := range namespaces[:min(len(namespaces), maxQueues)] {
		show(deadRuns, dead[ns], ns)
	}
	for _, l := range c.limits.bounded(c.sources.Limits()) {
		show(limitHeld, l.Held, l.Namespace, l.Key)
		show(limitOf, l.Of, l.Namespace, l.Key)
	}
	c.showRates(show)
	c.queues(out, show)
}

// requests shows how many there were to the store.
func (c *collector) requests(out chan<- prometheus.Metric) {
	reads, writes := c.sources.Requests()
	for kind, n := range map[string]int64{"read": reads, "write": writes} {
		out <- prometheus.MustNewConstMetric(descs[storeRequests], prometheus.CounterValue, float64(n), kind)
	}
}

// cluster shows what the node knows of its cluster.
func (c *collector) cluster(out chan<- prometheus.Metric, show func(name string, n int, labels ...string)) {
	stats := ClusterStats{Members: 1}
	if watch := c.metrics.clusterStats.Load(); watch != nil {
		stats = (*watch)()
	}
	show(clusterMembers, stats.Members)
	show(clusterUnfit, stats.Unfit)
	show(clusterRefused, stats.Refused)
	out <- prometheus.MustNewConstMetric(descs[clusterSkew], prometheus.GaugeValue, stats.Skew.Seconds())
}

// workers is how many workers are connected. Sidecars of Dapr are none; Dapr's own metrics count them.
func (c *collector) workers() (n int) {
	for _, w := range c.sources.Workers() {
		if w.Kind == "worker" {
			n++
		}
	}
	return n
}
