package permit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/heaps"
	"github.com/carillonhq/carillon/server/internal/message"
)

// Counter counts the attempts in force of concurrency keys over some partitions, and decides which line
// goes next. A permit that comes free is reserved for the line with the best first run. Its partition is
// told, and in its next round uses the permit or passes it on, so that no permit stays idle for want of free
// slots.
type Counter struct {
	limitOf func(delivery.Limit) (n int, limited bool)
	tell    func(p int, l delivery.Line, n int) // must not call back
	// Free permits are not for a line whose first run has this order; nil: never.
	yields func(key delivery.Limit, order int64) bool

	limits map[delivery.Limit]*limit
	held   map[int]map[delivery.Limit]int // permits of attempts in force, by partition
}

// limit is the state of one concurrency key.
type limit struct {
	key      delivery.Limit
	inForce  int
	reserved int
	lines    map[spot]*waiter
	waiting  heaps.Of[*waiter]
}

// spot names a line of a partition.
type spot struct {
	p    int
	line delivery.Line
}

// waiter holds what a line has reserved and wants.
type waiter struct {
	spot
	order    int64
	want     int
	reserved int
	at       int32 // index in waiting; -1: does not wait
}

// NewCounter makes a counter. limitOf returns the limit of a key. tell is called with how many permits
// have been reserved for a line of a partition; it must not call back.
func NewCounter(limitOf func(delivery.Limit) (int, bool), tell func(p int, l delivery.Line, n int)) *Counter {
	return &Counter{limitOf: limitOf, tell: tell, limits: map[delivery.Limit]*limit{},
		held: map[int]map[delivery.Limit]int{}}
}

// Take implements [partition.Limiter] for a partition.
func (m *Counter) Take(p int, line delivery.Line) (ok, limited bool) {
	most, limited := m.limitOf(line.Limit)
	if !limited {
		return true, false
	}
	l := m.limit(line.Limit)
	defer m.tidy(l)
	w := l.lines[spot{p, line}]
	own := w != nil && w.reserved > 0
	used := l.inForce + l.reserved
	if own {
		used--
	}
	if used >= most {
		return false, true
	}
	if own {
		w.reserved--
		l.reserved--
	}
	m.hold(p, l, 1)
	return true, true
}

// Free implements [partition.Limiter] for a partition.
func (m *Counter) Free(p int, key delivery.Limit) {
	l := m.limit(key)
	m.hold(p, l, -1)
	m.serve(l)
}

// Wait implements [partition.Limiter] for a partition.
func (m *Counter) Wait(p int, line delivery.Line, order int64, want int) {
	l := m.limit(line.Limit)
	at := spot{p, line}
	w := l.lines[at]
	if w == nil {
		w = &waiter{spot: at, at: -1}
		l.lines[at] = w
	}
	l.waiting.Remove(w)
	w.order, w.want = order, want
	l.waiting.Add(w)
	m.serve(l)
}

// Pass implements [partition.Limiter] for a partition.
func (m *Counter) Pass(p int, line delivery.Line) {
	l := m.limit(line.Limit)
	if w := l.lines[spot{p, line}]; w != nil {
		l.reserved -= w.reserved
		w.reserved = 0
		if w.at < 0 {
			delete(l.lines, w.spot)
		}
	}
	m.serve(l)
}

// Leave implements [partition.Limiter] for a partition.
func (m *Counter) Leave(p int, line delivery.Line) {
	l := m.limit(line.Limit)
	if w := l.lines[spot{p, line}]; w != nil {
		l.drop(w)
	}
	m.serve(l)
}

// drop forgets a line and what is reserved for it.
func (l *limit) drop(w *waiter) {
	l.waiting.Remove(w)
	l.reserved -= w.reserved
	delete(l.lines, w.spot)
}

// Abandon forgets the lines of a partition whose term is over. Its attempts are still in force, so their
// permits stay taken until the next term has counted them again.
func (m *Counter) Abandon(p int) {
	for _, l := range inOrder(m.limits) {
		for at, w := range l.lines {
			if at.p == p {
				l.drop(w)
			}
		}
		m.serve(l)
	}
}

// Charge takes one permit for each attempt in force that a new term of a partition has found in the store, in
// place of those of the previous term.
func (m *Counter) Charge(p int, held []delivery.Limit) {
	for key, n := range m.held[p] {
		m.limit(key).inForce -= n
	}
	m.held[p] = nil
	for _, key := range held {
		m.hold(p, m.limit(key), 1)
	}
	for _, l := range inOrder(m.limits) {
		m.serve(l)
	}
}

// Changed serves the limits of a namespace again after its settings have changed; "" means all namespaces.
func (m *Counter) Changed(namespace string) {
	for _, l := range inOrder(m.limits) {
		if namespace == "" || l.key.Namespace == namespace {
			m.serve(l)
		}
	}
}

// inOrder returns the values ordered by limit, so that nothing depends on a map's order.
func inOrder[V any](of map[delivery.Limit]V) []V {
	out := make([]V, 0, len(of))
	for _, key := range slices.SortedFunc(maps.Keys(of), delivery.Limit.Compare) {
		out = append(out, of[key])
	}
	return out
}

func (m *Counter) limit(key delivery.Limit) *limit {
	l := m.limits[key]
	if l == nil {
		l = &limit{key: key, lines: map[spot]*waiter{}}
		m.limits[key] = l
	}
	return l
}

// hold adds n to the attempts in force of a partition; n may be negative.
func (m *Counter) hold(p int, l *limit, n int) {
	if m.held[p] == nil {
		m.held[p] = map[delivery.Limit]int{}
	}
	l.inForce += n
	if m.held[p][l.key] += n; m.held[p][l.key] == 0 {
		delete(m.held[p], l.key)
	}
}

// reserveAtOnce bounds the permits reserved for a line at a time.
const reserveAtOnce = 64

// serve reserves free permits for the lines that wait, best first.
func (m *Counter) serve(l *limit) {
	most, limited := m.limitOf(l.key)
	for len(l.waiting) > 0 {
		w := l.waiting[0]
		n := w.want
		if limited {
			if n = min(n, reserveAtOnce, most-l.inForce-l.reserved); n <= 0 ||
				m.yields != nil && m.yields(l.key, w.order) {
				break
			}
			w.reserved += n
			l.reserved += n
		}
		l.waiting.Remove(w)
		m.tell(w.p, w.line, n)
	}
	m.tidy(l)
}

// tidy forgets a limit with no attempts in force and no lines.
func (m *Counter) tidy(l *limit) {
	if l.inForce == 0 && len(l.lines) == 0 {
		delete(m.limits, l.key)
	}
}

// Before orders waiters by order, then partition and line.
func (w *waiter) Before(o *waiter) bool {
	switch {
	case w.order != o.order:
		return w.order < o.order
	case w.p != o.p:
		return w.p < o.p
	}
	return w.line.Queue.String() < o.line.Queue.String()
}

// At is where the waiter stands.
func (w *waiter) At() *int32 { return &w.at }

// Left describes what the counter still holds; "" if nothing.
func (m *Counter) Left() string {
	var left strings.Builder
	for _, l := range inOrder(m.limits) {
		fmt.Fprintf(&left, "%v: %d in force, %d reserved, %d lines; ", l.key, l.inForce, l.reserved, len(l.lines))
	}
	return left.String()
}

// The rest is what a [Pool] needs of its counter.

// reserved returns how many permits are reserved for a line.
func (m *Counter) reserved(p int, line delivery.Line) int {
	if l := m.limits[line.Limit]; l != nil {
		if w := l.lines[spot{p, line}]; w != nil {
			return w.reserved
		}
	}
	return 0
}

// state returns how many permits are in force or reserved, and how many more are wanted, at most
// reserveAtOnce.
func (m *Counter) state(key delivery.Limit) (used, want int) {
	l := m.limits[key]
	if l == nil {
		return 0, 0
	}
	for _, w := range l.waiting {
		want += w.want
	}
	return l.inForce + l.reserved, min(want, reserveAtOnce)
}

// first returns the order of the best run that waits; NoNextWaiter if none does.
func (m *Counter) first(key delivery.Limit) int64 {
	if l := m.limits[key]; l != nil && len(l.waiting) > 0 {
		return l.waiting[0].order
	}
	return message.NoNextWaiter
}

// spend uses up the permit of a rate that a partition has taken.
func (m *Counter) spend(p int, key delivery.Limit) {
	l := m.limit(key)
	m.hold(p, l, -1)
	m.tidy(l)
}

// knows reports whether the counter holds anything of the limit.
func (m *Counter) knows(key delivery.Limit) bool { return m.limits[key] != nil }

// again serves the lines that wait.
func (m *Counter) again(key delivery.Limit) {
	if l := m.limits[key]; l != nil {
		m.serve(l)
	}
}
