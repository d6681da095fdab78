package partition

import (
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/heaps"
)

// OnlyCritical says whether only critical runs leave from now on, because the store does not answer. Of these
// some wait as well: those under a limit, whose permits must be durable before they leave, and those of
// sidecars, whose attempts end with the term.
//
// What leaves is in doubt until it is durable, as any attempt is: if the term ends before, the next one makes
// it again under the same token (indoubt.go). It is one attempt of a record at most, since whatever makes the
// next one possible must be durable first. So of a recurring job one time runs, and its next one follows when
// the store is back. If away is set they say that the store is away; otherwise it may be slow alone.
func (m *Machine) OnlyCritical(on, away bool, now int64) {
	m.Queues.away = on && away
	if m.Queues.only == on {
		return
	}
	if m.Queues.only = on; !on {
		m.unblock(now)
		return
	}
	var waits []*entry
	for _, q := range m.Queues.active {
		for _, l := range []heaps.Of[*entry]{q.lists[critical], q.overdue[critical]} {
			for _, e := range l {
				if m.Permits.needsStore(e) {
					waits = append(waits, e)
				}
			}
		}
	}
	for _, e := range waits {
		m.due.dequeue(e)
		m.due.block(e)
	}
}

// needsStore reports whether a run, whose spec is in memory, can leave only once something is durable.
func (p *Permits) needsStore(e *entry) bool {
	var limits [delivery.MostLimits]delivery.Limit
	all := delivery.AppendLimits(limits[:0], e.job(), p.rated(e.ref.Namespace))
	return len(all) > 0 || e.traits().endsWithStream || e.job().Target.AwaitsCompletion()
}

// Mute has the machine tell nothing of runs and attempts that end in it from now on: its changes are never
// written, and the next term tells of them. It still tells what leaves.
func (m *Machine) Mute() {
	m.cfg.Events = Events{Fired: m.cfg.Events.Fired}
	if m.cfg.Tracer != nil {
		m.cfg.Tracer = muted{m.cfg.Tracer}
	}
}

// muted is a tracer that gives consumers their contexts, and makes no spans.
type muted struct{ of Tracer }

// Context implements [Tracer].
func (t muted) Context(a delivery.Attempt) delivery.Trace { return t.of.Context(a) }

// Ended implements [Tracer].
func (muted) Ended(delivery.EndedAttempt) {}
