package telemetry

// IngestStats is how a topic stands that an ingest takes messages from.
type IngestStats struct {
	Ingest, Topic string
	Connected     bool
	Lag           int64 // -1: unknown
}

// WatchIngests shows how ingests stand, once. Without it there are none.
func (m *Metrics) WatchIngests(stats func() []IngestStats) { m.ingestStats.Store(&stats) }

// IngestCount counts a message by its outcome.
func (m *Metrics) IngestCount(ingest, topic, outcome string) {
	m.ingestMessages.WithLabelValues(ingest, topic, outcome).Inc()
}

// ingests shows how the topics of ingests stand.
func (c *collector) ingests(show func(name string, n int, labels ...string)) {
	watch := c.metrics.ingestStats.Load()
	if watch == nil {
		return
	}
	for _, s := range (*watch)() {
		show(ingestConnected, number(s.Connected), s.Ingest, s.Topic)
		if s.Lag >= 0 {
			show(ingestLag, int(s.Lag), s.Ingest, s.Topic)
		}
	}
}
