package telemetry

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// maxRefusedNamespaces is how many namespaces have series of their own for what their quotas refused. All
// further ones share those of [Other].
const maxRefusedNamespaces = 200

// quotaNames are the quotas that refuse changes of jobs.
var quotaNames = []string{"jobs", "payload_bytes", "puts"}

// refusals counts what quotas refuse, by namespace.
type refusals struct {
	vec *prometheus.CounterVec

	mu    sync.Mutex
	known map[string]map[string]prometheus.Counter // by namespace and quota
}

func newRefusals(m *Metrics) *refusals {
	r := &refusals{vec: m.labelled(quotaRefusals), known: map[string]map[string]prometheus.Counter{}}
	r.add(Other)
	return r
}

// add makes the series of a namespace. The caller holds mu, but at first.
func (r *refusals) add(namespace string) map[string]prometheus.Counter {
	of := map[string]prometheus.Counter{}
	for _, quota := range quotaNames {
		of[quota] = r.vec.WithLabelValues(namespace, quota)
	}
	r.known[namespace] = of
	return of
}

// count counts a refusal. A quota of a later version is not counted.
func (r *refusals) count(namespace, quota string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.known[namespace]
	switch {
	case of != nil:
	case len(r.known) > maxRefusedNamespaces: // with Other
		of = r.known[Other]
	default:
		of = r.add(namespace)
	}
	if c := of[quota]; c != nil {
		c.Inc()
	}
}

// QuotaRefused counts a change of a job that a quota of its namespace has refused.
func (m *Metrics) QuotaRefused(namespace, quota string) { m.refusals.count(namespace, quota) }
