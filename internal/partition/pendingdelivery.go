package partition

// pendingDelivery is an attempt that is handed out once it is durable.
type pendingDelivery struct {
	e   *entry
	nth uint64 // e.pendingDelivery, unless the attempt was withdrawn
	d   Delivery
	seq uint64 // the batch that holds it
	at  int64  // when the attempt was made, UTC ns
}

// deliverWhenDurable writes the attempt that e has just been granted, and keeps its delivery until that is
// durable.
func (m *Machine) deliverWhenDurable(e *entry, d Delivery, now int64) {
	m.pendingSoFar++
	e.pendingDelivery, e.first = m.pendingSoFar, true
	m.keepGrant(e)
	m.rearm(e)
	d.Durable = true
	m.pendingDeliveries = append(m.pendingDeliveries, pendingDelivery{e: e, nth: e.pendingDelivery, d: d, seq: m.out.seq, at: now})
}

// Granted returns the attempts that have become durable since the last call and may now be handed out. Their
// lease and timeout begin now. spare has the queue of each that was withdrawn meanwhile, whose slot is free.
func (m *Machine) Granted(now int64) (ds []Delivery, spare []Queue) {
	n := 0
	for ; n < len(m.pendingDeliveries) && m.pendingDeliveries[n].seq <= m.out.durable; n++ {
		p := &m.pendingDeliveries[n]
		e := p.e
		if e.pendingDelivery != p.nth {
			spare = append(spare, p.d.Queue)
			continue
		}
		e.pendingDelivery = 0
		m.startClocks(e, now)
		// After a long wait it must be written again, or what is stored ends too soon.
		e.durable = now-p.at < int64(m.cfg.GrantAfter)
		p.d.Run.Started, p.d.Run.Deadline = toTime(now), toTime(now+int64(p.d.Timeout))
		m.begun(e, p.d.Queue, now)
		ds = append(ds, p.d)
	}
	clear(m.pendingDeliveries[:n])
	m.pendingDeliveries = m.pendingDeliveries[n:]
	if len(m.pendingDeliveries) == 0 {
		m.pendingDeliveries = nil
	}
	return ds, spare
}

// revoke ends the attempt in force, if there is one. It reports whether a consumer had it; that consumer is
// told to stop. An attempt that has not been handed out does not count.
func (m *Machine) revoke(e *entry) (interrupted bool) {
	switch {
	case e.place != running:
		return false
	case e.pendingDelivery != 0:
		m.withdraw(e)
		return false
	}
	m.stop(e)
	return true
}

// withdraw takes back an attempt, which then does not count.
func (m *Machine) withdraw(e *entry) {
	doubt := e.state.Run.Doubt // consumers of the attempt in doubt may still have it
	m.leave(e, false)
	e.state.Run.Doubt = doubt
	r := &e.state.Run
	e.uncount(granted(r))
	if r.Attempt--; r.Attempt == 0 {
		r.Started = 0
	}
}

// PendingDeliveries returns the attempts that have not been handed out yet. An owner that gives up its term
// hands out none of them, although the store may hold them. Its next term can withdraw them with
// [Machine.Undelivered], so that nobody waits for their leases to end.
func (m *Machine) PendingDeliveries() []Token {
	var out []Token
	for i := range m.pendingDeliveries {
		if e := m.pendingDeliveries[i].e; e.pendingDelivery == m.pendingDeliveries[i].nth {
			out = append(out, Token{Grant: e.state.Run.Grant, Run: e.state.Identity(m.cfg.Partition), Attempt: e.state.Run.Attempt})
		}
	}
	return out
}

// withdrawAll withdraws every attempt that has not been handed out.
func (m *Machine) withdrawAll() {
	for i := range m.pendingDeliveries {
		if e := m.pendingDeliveries[i].e; e.pendingDelivery == m.pendingDeliveries[i].nth {
			m.withdraw(e)
			m.touch(e)
			m.rearm(e)
		}
	}
}
