package telemetry

import "github.com/prometheus/client_golang/prometheus"

// payloadCounters count what is done with payloads that are stored apart.
type payloadCounters struct{ puts, gets, collections *prometheus.CounterVec }

func newPayloadCounters(m *Metrics) payloadCounters {
	return payloadCounters{m.labelled(payloadPuts), m.labelled(payloadGets), m.labelled(payloadCollections)}
}

// PayloadPut counts a payload that was to be stored, and its bytes if it was.
func (m *Metrics) PayloadPut(outcome string, bytes int64) {
	m.payloads.puts.WithLabelValues(outcome).Inc()
	m.counters[payloadBytes].Add(float64(bytes))
}

// PayloadGot counts a payload that was to be read.
func (m *Metrics) PayloadGot(outcome string) { m.payloads.gets.WithLabelValues(outcome).Inc() }

// PayloadsCollected counts a collection, and the payloads that it has removed.
func (m *Metrics) PayloadsCollected(outcome string, removed uint64) {
	m.payloads.collections.WithLabelValues(outcome).Inc()
	m.counters[payloadsCollected].Add(float64(removed))
}
