package daprmetrics

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// maxLimits is the most limits that are shown, in the order of their names: keys are chosen by applications.
const maxLimits = 1000

// collector reads how concurrency limits stand.
type collector struct {
	limits func() []partition.Tally
}

var limitDescs = map[string]*prometheus.Desc{
	inFlight:  desc(inFlight),
	pending:   desc(pending),
	throttled: desc(throttled),
}

func desc(name string) *prometheus.Desc {
	return prometheus.NewDesc(name, metric(name).Help, metric(name).Labels, nil)
}

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range limitDescs {
		out <- d
	}
}

// sums are what is shown of one limit.
type sums struct{ inFlight, pending, throttled float64 }

// Collect implements prometheus.Collector. Dapr's label has no namespace: limits of the same name are added
// up.
func (c collector) Collect(out chan<- prometheus.Metric) {
	all := map[string]sums{}
	for _, t := range c.limits() {
		label := labelOf(t.Limit)
		s := all[label]
		s.inFlight += float64(t.InForce)
		s.pending += float64(t.Waiting)
		s.throttled += float64(t.Throttled)
		all[label] = s
	}
	labels := slices.Sorted(maps.Keys(all))
	for _, label := range labels[:min(len(labels), maxLimits)] {
		s := all[label]
		out <- prometheus.MustNewConstMetric(limitDescs[inFlight], prometheus.GaugeValue, s.inFlight, label)
		out <- prometheus.MustNewConstMetric(limitDescs[pending], prometheus.GaugeValue, s.pending, label)
		out <- prometheus.MustNewConstMetric(limitDescs[throttled], prometheus.CounterValue, s.throttled, label)
	}
}

// labelOf is a limit's name as Dapr writes it: TYPE, or TYPE:KEY.
func labelOf(l delivery.Limit) string {
	actorType, key, _ := l.Actor()
	if key == "" {
		return actorType
	}
	return actorType + ":" + key
}
