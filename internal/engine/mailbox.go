package engine

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store"
)

// call is something to do with the machine, in a round of the partition.
type call struct {
	refs []store.Ref            // records that must be in memory if they exist
	live []carillon.RunIdentity // unfinished runs that must be in memory if they exist

	pending bool // the pending runs of the jobs in refs must be in memory, too
	relayed bool // a node asks, which asks the next owner when the term ends: it does not wait for what is on its way

	of string // the id of the batch that it is for, if it is for one

	asked bool // refs are being read
	read  bool // they have been, or need not be

	do   func(p *partitionRunner, now int64) // runs once they are; it answers through reply
	fail func(err error)                     // runs instead if the partition cannot serve
}

// report is a consumer's word with its token read.
type report struct {
	tok partition.Token
	*partition.Report
	place uint64 // in the order in which they came into the mailbox; 0 = it has not come yet
}

// heartbeat is a sign of life with its token read.
type heartbeat struct {
	tok  partition.Token
	from partition.Reporter
	text string
	ask  bool // whether the attempt is in force
}

// loss is an attempt that its consumer will not finish.
type loss struct {
	tok         partition.Token
	undelivered bool // it never left: no attempt is used
	former      bool // that was under an earlier term, of this node or another
}

// mail is what came in since the last round.
type mail struct {
	calls             []call
	reports           []report
	heartbeats        []heartbeat
	losses            []loss
	rooms             []partition.Queue  // that have slots reserved for this partition
	consumers         []partition.Queue  // that have a first consumer
	dependencyAnswers []dependencyAnswer // what other partitions say about jobs that wait
	permits           []permitNews
	cluster           permitMail
	lost              []store.Term // that are over, as a renewal has found
	marks             []goneMarks
	passed            []bool   // how passing on has ended: whether it was heard
	refuted           []string // tokens of heartbeats that were refused
}

// mailbox collects mail from any goroutine for one partition.
type mailbox struct {
	mu     sync.Mutex
	in     mail
	closed bool
	came   uint64 // reports that have come so far
	mixed  bool   // they may not stand in the order in which they came

	rung atomic.Bool // a round is wanted
	wake func()      // makes the lane look
}

// put lets f add mail; it reports false, and does nothing, if the box is closed.
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

// number gives reports that have just come their places. The lock is held.
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

// order has reports that were put back stand before those that have come since: of what two consumers say of an attempt that both have,
// the first counts. The lock is held.
func (b *mailbox) order() {
	if b.mixed {
		slices.SortStableFunc(b.in.reports, func(x, y report) int { return cmp.Compare(x.place, y.place) })
		b.mixed = false
	}
}

// keep puts mail back for the next round, whenever that is: nobody is woken.
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

// putBack keeps what consumers said, until the next round.
func (b *mailbox) putBack(in *mail) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.in.reports = append(b.in.reports, in.reports...)
		b.in.heartbeats = append(b.in.heartbeats, in.heartbeats...)
		b.in.losses = append(b.in.losses, in.losses...)
		b.number()
		b.mixed = true
	}
}

// ring asks for a round. Who finds that somebody has asked before leaves it to him to wake the lane.
func (b *mailbox) ring() {
	if !b.rung.Swap(true) {
		b.wake()
	}
}

// answer reports whether a round is wanted, and takes note of it: who rings from now on wants another.
func (b *mailbox) answer() bool { return b.rung.Load() && b.rung.Swap(false) }

// take empties the box.
func (b *mailbox) take() mail {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.order()
	m := b.in
	b.in = mail{}
	return m
}

// takeReady empties the box but for calls that need records which are not in memory and have not been read; it reports whether
// some of these are not even being read.
func (b *mailbox) takeReady(has func(store.Ref) bool) (m mail, unread bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.order()
	m = b.in
	b.in = mail{}
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

// ready reports whether nothing must be read for the call, or has been.
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
	b.order()
	m := b.in
	b.in = mail{}
	return m
}
