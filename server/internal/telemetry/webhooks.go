package telemetry

// EventTold counts an event for which a job was put that sends it to a webhook.
func (m *Metrics) EventTold() { m.counters[webhookEvents].Inc() }

// EventRefused counts an event for which no job could be put.
func (m *Metrics) EventRefused() { m.counters[webhookRefused].Inc() }

// EventsMissed counts a gap in what webhooks are told.
func (m *Metrics) EventsMissed() { m.counters[webhookGaps].Inc() }
