package partition

// pendingDelivery is an attempt that is handed out once it is durable.
type pendingDelivery struct {
	e   *entry
	nth uint64 // e.pledge, as long as it stands
	d   Delivery
	seq uint64 // the batch that holds it
	at  int64
}

// deliverWhenDurable writes the attempt that e has just been granted, and keeps its delivery until that is durable.
func (m *Machine) deliverWhenDurable(e *entry, d Delivery, now int64) {
	m.pendingSoFar++
	e.pendingDelivery, e.first = m.pendingSoFar, true
	m.keepGrant(e)
	m.rearm(e)
	d.Durable = true
	m.pendingDeliveries = append(m.pendingDeliveries, pendingDelivery{e: e, nth: e.pendingDelivery, d: d, seq: m.out.seq, at: now})
}

// Granted returns the attempts that have become durable since it was last asked and may now be handed out: their clocks
// begin. spare has the queue of each that was taken back meanwhile, whose slot is not needed.
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
		e.durable = now-p.at < int64(m.cfg.GrantAfter) // or what is stored has it end too soon
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

// revoke ends the attempt in force, if there is one, and reports whether a consumer had it, who is told to stop. One that
// has not been handed out does not count.
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

// withdraw takes back an attempt that does not count.
func (m *Machine) withdraw(e *entry) {
	doubt := e.state.Run.Doubt // whoever may have had the attempt before may have it still
	m.leave(e, false)
	e.state.Run.Doubt = doubt
	r := &e.state.Run
	m.uncount(e, granted(r))
	if r.Attempt--; r.Attempt == 0 {
		r.Started = 0
	}
}

// PendingDeliveries are the attempts that have not been handed out yet. An owner that gives up its term hands out none of them, though the
// store may hold them: its next term can take them back with [Machine.Undelivered], so that nobody waits for their leases.
func (m *Machine) PendingDeliveries() []Token {
	var out []Token
	for i := range m.pendingDeliveries {
		if e := m.pendingDeliveries[i].e; e.pendingDelivery == m.pendingDeliveries[i].nth {
			out = append(out, Token{Grant: e.state.Run.Grant, Run: e.state.Identity(m.cfg.Partition), Attempt: e.state.Run.Attempt})
		}
	}
	return out
}

// withdrawAll takes back every attempt that has not been handed out.
func (m *Machine) withdrawAll() {
	for i := range m.pendingDeliveries {
		if e := m.pendingDeliveries[i].e; e.pendingDelivery == m.pendingDeliveries[i].nth {
			m.withdraw(e)
			m.touch(e)
			m.rearm(e)
		}
	}
}
