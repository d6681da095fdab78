package engine

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/carillonhq/carillon/server/internal/audit"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

// call is an operation on the machine, run in a round of the partition.
type call struct {
	refs []store.Ref   // records that must be in memory, if they exist
	live []store.RunID // unfinished runs that must be in memory, if they exist

	pending bool // the pending runs of the jobs in refs must be in memory, too
	// From another node, which asks the next owner if the term ends: it does not wait for a batch in flight.
	relayed bool

	of string // id of the batch put that the call is for, if any

	audit *audit.Call // is recorded with what the call changes, if it succeeds; nil: nothing is

	asked bool // refs are being read
	read  bool // refs have been read, or are all in memory

	do   func(p *partitionRunner, now int64) // runs once they are; answers through reply
	fail func(err error)                     // runs instead if the partition cannot serve
}

// report is a consumer's report with its token parsed.
type report struct {
	tok message.Token
	*delivery.Report
	place uint64 // its position in the order of arrival in the mailbox; 0 = not there yet
}

// heartbeat is a heartbeat with its token parsed.
type heartbeat struct {
	tok  message.Token
	from delivery.Reporter
	text string
	ask  bool // the sender asks whether the attempt is in force
}

// loss is an attempt that its consumer will not finish.
type loss struct {
	tok         message.Token
	undelivered bool // it was never sent: no attempt is used up
	former      bool // it was lost under an earlier term, of this node or another
	others      bool // another node may have had a term since
}

// sentSlots are slots that became free while a partition waited for them.
type sentSlots struct {
	to    delivery.Owner
	queue delivery.Queue
	n     int
}

// reported is what consumers reported of attempts.
type reported struct {
	reports    []report
	heartbeats []heartbeat
	losses     []loss
}

func (r *reported) len() int { return len(r.reports) + len(r.heartbeats) + len(r.losses) }

// add adds more at the end.
func (r *reported) add(more *reported) {
	r.reports = append(r.reports, more.reports...)
	r.heartbeats = append(r.heartbeats, more.heartbeats...)
	r.losses = append(r.losses, more.losses...)
}

// mail is what has come in since the last round.
type mail struct {
	reported
	calls             []call
	slots             []sentSlots        // of queues for which this partition has waited
	dependencyAnswers []dependencyAnswer // from other partitions, about jobs that wait
	permits           []reservedPermits
	limits            []string // namespaces whose limits have changed; "" stands for all
	cluster           permitMail
	overTerms         []store.Term // terms that a renewal has found to be over
	marks             []goneMarks
	relayed           []bool   // how relaying parts has ended: whether the owner has answered for the whole part
	staleOrphans      []string // tokens of orphans that are not in force
}

// mailbox collects mail for one partition, from any goroutine.
type mailbox struct {
	mu     sync.Mutex
	in     mail
	closed bool
	came   uint64 // number of reports so far
	mixed  bool   // reports may not be in the order of arrival

	rung atomic.Bool // a round is requested
	wake func()      // wakes the lane
}

// put lets f add mail and requests a round. It returns false, and does nothing, if the mailbox is closed.
func (b *mailbox) put(f func(m *mail)) bool {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return false
	}
	f(&b.in)
	b.number()
	b.mu.Unlock()
	b.ring()
	return true
}

// number gives new reports their places. The lock is held.
func (b *mailbox) number() {
	rs := b.in.reports
	i := len(rs)
	for ; i > 0 && rs[i-1].place == 0; i-- {
	}
	for ; i < len(rs); i++ {
		b.came++
		rs[i].place = b.came
	}
}

// order sorts reports that were put back before those that have come in since. If two consumers report on the
// same attempt, the first report counts. The lock is held.
func (b *mailbox) order() {
	if b.mixed {
		slices.SortStableFunc(b.in.reports, func(x, y report) int { return cmp.Compare(x.place, y.place) })
		b.mixed = false
	}
}

// keep lets f put mail back for the next round, without requesting one.
func (b *mailbox) keep(f func(m *mail)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.order()
		f(&b.in)
		b.number()
		b.mixed = true
	}
}

// putBack puts what was reported back for the next round, without requesting one.
func (b *mailbox) putBack(in *reported) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.in.add(in)
		b.number()
		b.mixed = true
	}
}

// ring requests a round. If a round is already requested, that caller wakes the lane.
func (b *mailbox) ring() {
	if !b.rung.Swap(true) {
		b.wake()
	}
}

// answer reports whether a round is requested, and clears the request: a later ring requests another round.
func (b *mailbox) answer() bool { return b.rung.Load() && b.rung.Swap(false) }

// take empties the mailbox.
func (b *mailbox) take() mail {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.empty()
}

// empty takes everything. The lock is held.
func (b *mailbox) empty() mail {
	b.order()
	m := b.in
	b.in = mail{}
	return m
}

// takeSlots takes the slots alone.
func (b *mailbox) takeSlots() []sentSlots {
	b.mu.Lock()
	defer b.mu.Unlock()
	slots := b.in.slots
	b.in.slots = nil
	return slots
}

// takeReady empties the mailbox except for calls whose records are not in memory and have not been read.
// unread reports whether some of these are not even being read.
func (b *mailbox) takeReady(has func(store.Ref) bool) (m mail, unread bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m = b.empty()
	ready := 0
	for i := range m.calls {
		if c := &m.calls[i]; c.ready(has) {
			ready++
		} else {
			unread = unread || !c.asked
		}
	}
	switch ready {
	case len(m.calls):
	case 0:
		b.in.calls, m.calls = m.calls, nil
	default:
		for i := range m.calls {
			if !m.calls[i].read {
				b.in.calls = append(b.in.calls, m.calls[i])
			}
		}
		m.calls = slices.DeleteFunc(m.calls, func(c call) bool { return !c.read })
	}
	return m, unread
}

// ready reports whether the call's records have been read or are all in memory.
func (c *call) ready(has func(store.Ref) bool) bool {
	if !c.read && !c.asked {
		c.read = !slices.ContainsFunc(c.refs, func(ref store.Ref) bool { return !has(ref) })
	}
	return c.read
}

// close refuses further mail and returns what was left.
func (b *mailbox) close() mail {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return b.empty()
}
