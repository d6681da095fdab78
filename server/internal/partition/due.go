package partition

import (
	"github.com/carillonhq/carillon/server/internal/delivery"
)

// dueRuns are the runs that are due and wait in memory: in the queue of their target, in the line of a
// concurrency key, or blocked, until what they depend on is durable or read.
type dueRuns struct {
	cfg      *Config
	out      *builder
	agenda   *agenda
	records  *Records
	suspects *suspects
	queues   *Queues
	permits  *Permits

	blocked []*entry // due, but waiting for a batch or a record; see block
	woken   []*entry // memory reused for blocked
}

// enqueue puts a due run into its queue's list, or blocks it if something must be durable or read first.
func (d *dueRuns) enqueue(e *entry, now int64) {
	if d.out.awaitsCommit(e) || !d.records.complete(e) || e.changing(d.out.durable) ||
		d.queues.only && e.state.Priority == critical && d.permits.needsStore(e) {
		d.block(e)
		return
	}
	d.suspects.settleRun(e)
	q := d.queues.queue(delivery.QueueOf(e.ref.Namespace, e.job().Target))
	e.queue = q.name
	e.move(ready)
	e.readyAt = now
	d.queues.add(q, e)
	if !q.listed {
		q.listed = true
		d.queues.active = append(d.queues.active, q)
	}
	d.agenda.rearm(e)
}

// dequeue removes e from its queue's list or its line, and returns the permits that it has kept there.
func (d *dueRuns) dequeue(e *entry) {
	d.unlist(e)
	d.permits.forgo(e)
}

// unlist is dequeue for a run that takes permits now, or waits for another: it keeps those that it has.
func (d *dueRuns) unlist(e *entry) {
	if e.place == aside {
		e.line.list.Remove(waiting{e})
	} else {
		d.queues.queue(*e.queue).listOf(e).Remove(e)
	}
	left := e.place
	e.move(idle)
	if e.line != nil {
		d.permits.leaveLine(e, left)
	}
}

// block sets e aside until a batch is durable or a record has been read.
func (d *dueRuns) block(e *entry) {
	if e.place != running {
		e.move(blocked)
	}
	d.agenda.set(e, 0)
	d.blocked = append(d.blocked, e)
}

// touch has e's state written. A due run waits until that is durable, because it is handed out only with
// durable content.
func (d *dueRuns) touch(e *entry) {
	if e.queued() {
		d.dequeue(e)
		d.block(e)
	}
	e.held = d.out.seq
	d.out.note(e)
}

// setAside puts a due run into its line to wait for a permit.
func (d *dueRuns) setAside(e *entry, key delivery.Line) {
	l := d.permits.line(key)
	e.move(aside)
	e.line = l
	l.list.Add(waiting{e})
	d.agenda.rearm(e)
	if l.waits && l.list[0].entry == e {
		l.waits = l.tries > 0 // e goes before the runs for which the line waits, so wait again with its order
	}
	d.permits.request(l)
}

// byPriority counts the records in memory that are due and wait, by priority.
func (d *dueRuns) byPriority() (n [priorities]int) {
	for _, q := range d.queues.active {
		for c := range priorities {
			n[c] += q.of(c)
		}
	}
	for _, e := range d.blocked {
		if e.place == blocked {
			n[e.state.Priority]++
		}
	}
	return n
}
