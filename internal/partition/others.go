package partition

import "slices"

// An attempt in doubt that is made again has one token and may have several consumers. One of them reports.
// Nothing else would ever reach the others, so they are told to stop. But a consumer that is told to stop
// discards the result that it has yet to report. So the others are told only when the outcome of that report
// is durable: they may be the same worker, on another of its streams.

// other is an attempt that one consumer has reported on, and that others may have.
type other struct {
	Cancel
	until int64  // when it would have ended at the latest, UTC ns
	seq   uint64 // the batch that holds the outcome
}

// stopOthers prepares the cancels of an attempt that one consumer has reported on. Call it before the attempt
// ends.
func (m *Machine) stopOthers(e *entry) {
	if !e.shared() {
		return
	}
	n := len(m.cancels)
	m.stop(e)
	for _, c := range m.cancels[n:] {
		m.others = append(m.others, other{c, e.state.Run.Deadline, m.out.seq})
	}
	m.cancels = m.cancels[:n]
}

// shared reports whether e's attempt in force may have been handed out more than once under its token.
func (e *entry) shared() bool {
	return e.place == running && !e.state.Run.Doubt.Term.IsZero() && !e.isDapr()
}

// durableOthers takes the prepared cancels whose batch is durable.
func (m *Machine) durableOthers() (cs []Cancel) {
	n := 0
	for ; n < len(m.others) && m.others[n].seq <= m.out.durable; n++ {
		cs = append(cs, m.others[n].Cancel)
	}
	m.others = slices.Delete(m.others, 0, n)
	return cs
}

// InForce reports whether the token is that of an attempt in force.
func (m *Machine) InForce(tok Token) bool {
	e := m.live[tok.Run]
	return e != nil && e.place == running && m.names(e, tok)
}
