package telemetry

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

// maxEndQueues is how many queues have series of their own for what became of their runs. A process never
// forgets a series, and names of queues are chosen by users: all further queues share those of other.
const maxEndQueues = 200

// Other is the value of the labels of the queues that have no series of their own.
const Other = "_other"

// ends counts the outcomes of runs by queue. The end of a run reads the series of its queue without a lock;
// the first of a queue makes them, until there are maxEndQueues.
type ends struct {
	outcomes *prometheus.CounterVec
	took     *prometheus.HistogramVec
	other    *endSeries

	mu     sync.Mutex // of those who make series
	queues atomic.Pointer[map[delivery.Queue]*endSeries]
}

// endSeries are the series of a queue.
type endSeries struct {
	succeeded, failed, dead, cancelled prometheus.Counter
	took                               prometheus.Observer
}

// newEnds registers the metrics.
func newEnds(m *Metrics) *ends {
	e := &ends{outcomes: m.labelled(runOutcomes), took: m.labelledHistogram(runSeconds)}
	e.other = e.series(delivery.Queue{Namespace: Other, Kind: Other, Address: Other})
	e.queues.Store(&map[delivery.Queue]*endSeries{})
	return e
}

// series makes the series of a queue.
func (e *ends) series(q delivery.Queue) *endSeries {
	of := func(outcome string) prometheus.Counter {
		return e.outcomes.WithLabelValues(outcome, q.Namespace, q.Kind, q.Address)
	}
	return &endSeries{of("succeeded"), of("failed"), of("dead"), of("cancelled"),
		e.took.WithLabelValues(q.Namespace, q.Kind, q.Address)}
}

// find returns the series of a queue, or those that it shares.
func (e *ends) find(q delivery.Queue) *endSeries {
	known := *e.queues.Load()
	if s := known[q]; s != nil {
		return s
	}
	if len(known) >= maxEndQueues {
		return e.other
	}
	return e.add(q)
}

// add gives a queue series of its own, if there is still room.
func (e *ends) add(q delivery.Queue) *endSeries {
	e.mu.Lock()
	defer e.mu.Unlock()
	known := *e.queues.Load()
	switch s := known[q]; {
	case s != nil:
		return s
	case len(known) >= maxEndQueues:
		return e.other
	}
	next := maps.Clone(known)
	next[q] = e.series(q)
	e.queues.Store(&next)
	return next[q]
}

// count counts the end of a run; observe measures how long it took.
func (e *ends) count(f delivery.Finished, observe func(prometheus.Observer, float64, delivery.Trace)) {
	s := e.find(f.Queue)
	switch f.Status {
	case carillon.RunSucceeded:
		s.succeeded.Inc()
	case carillon.RunFailed:
		s.failed.Inc()
	case carillon.RunDead:
		s.dead.Inc()
	case carillon.RunCancelled:
		s.cancelled.Inc()
	default:
		return
	}
	if f.Took >= 0 {
		observe(s.took, f.Took.Seconds(), f.Trace)
	}
}
