package daprmetrics

import (
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/carillonhq/carillon/server/internal/dispatch"
)

// maxGates is the most limits that are shown, in the order of their names: keys are chosen by applications.
const maxGates = 1000

// collector reads where concurrency limits stand.
type collector struct {
	gates func() []dispatch.GateStats
}

var gateDescs = map[string]*prometheus.Desc{
	inFlight:  desc(inFlight),
	pending:   desc(pending),
	throttled: desc(throttled),
}

func desc(name string) *prometheus.Desc {
	return prometheus.NewDesc(name, metric(name).Help, metric(name).Labels, nil)
}

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range gateDescs {
		out <- d
	}
}

// sums are what is shown of one limit.
type sums struct{ inFlight, pending, throttled float64 }

// Collect implements prometheus.Collector. Dapr's label has no namespace: limits of the same name are added
// up.
func (c collector) Collect(out chan<- prometheus.Metric) {
	all := map[string]sums{}
	for _, g := range c.gates() {
		label := labelOf(g.Gate)
		s := all[label]
		s.inFlight += float64(g.InFlight)
		s.pending += float64(g.Pending)
		s.throttled += float64(g.Throttled)
		all[label] = s
	}
	labels := slices.Sorted(maps.Keys(all))
	for _, label := range labels[:min(len(labels), maxGates)] {
		s := all[label]
		out <- prometheus.MustNewConstMetric(gateDescs[inFlight], prometheus.GaugeValue, s.inFlight, label)
		out <- prometheus.MustNewConstMetric(gateDescs[pending], prometheus.GaugeValue, s.pending, label)
		out <- prometheus.MustNewConstMetric(gateDescs[throttled], prometheus.CounterValue, s.throttled, label)
	}
}

// labelOf is a limit's name as Dapr writes it: TYPE, or TYPE:KEY.
func labelOf(g dispatch.Gate) string {
	actorType := strings.TrimPrefix(g.Queue.Address, "actor/")
	if g.Key == "" {
		return actorType
	}
	return actorType + ":" + g.Key
}
