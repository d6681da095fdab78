package partition

import "slices"

// An attempt in doubt that is made again has one token and may have several consumers. One of them answers. Nothing would ever be
// said to the others, so each is told to stop; but a consumer that is told forgets the result that it has to say. So the others are
// told when it is durable what the answer came to: perhaps they are the same worker, on another of its streams.

// other is an attempt that has been answered, which others may have.
type other struct {
	Cancel
	until int64  // when it would have been over at the latest, UTC ns
	seq   uint64 // the batch that holds what became of it
}

// stopOthers is for an attempt that one consumer has answered, before it is out of force.
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

// shared reports whether e's attempt in force may have been handed out more than once, under the token that it has.
func (e *entry) shared() bool {
	return e.place == running && !e.state.Run.Doubt.Term.IsZero() && !e.isDapr()
}

// durableOthers takes the cancels of others whose time has come.
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
