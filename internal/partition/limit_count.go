package partition

import (
	"container/heap"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// PermitCounter counts the attempts in force of concurrency keys over some partitions, and says who goes next. A token that comes
// free is reserved for the line with the best head; its partition is told, and uses it or passes it on in its next round, so
// that no token lies idle for want of room elsewhere.
type PermitCounter struct {
	limitOf func(Limit) (n int, limited bool)
	tell    func(p int, l Line, n int)        // must not call back
	yields  func(key Limit, order int64) bool // tokens that are free are not for a line with such a head; nil: never

	limits map[Limit]*limit
	held   map[int]map[Limit]int // by partition
}

// limit is where a concurrency key stands.
type limit struct {
	key      Limit
	inForce  int
	reserved int
	lines    map[spot]*waiter
	waiting  waiters
}

// spot is a line of a partition.
type spot struct {
	p    int
	line Line
}

// waiter is what a line has or wants.
type waiter struct {
	spot
	order    int64
	want     int
	reserved int
	at       int // in waiting; -1 = does not wait
}

// NewPermitCounter makes a counter. limitOf is the limit of a key; tell is told how many tokens have been reserved for a line of
// a partition, and must not call back.
func NewPermitCounter(limitOf func(Limit) (int, bool), tell func(p int, l Line, n int)) *PermitCounter {
	return &PermitCounter{limitOf: limitOf, tell: tell, limits: map[Limit]*limit{}, held: map[int]map[Limit]int{}}
}

// Take is [Limiter.Take] for a partition.
func (m *PermitCounter) Take(p int, line Line) (ok, limited bool) {
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

// Free is [Limiter.Free] for a partition.
func (m *PermitCounter) Free(p int, key Limit) {
	l := m.limit(key)
	m.hold(p, l, -1)
	m.serve(l)
}

// Wait is [Limiter.Wait] for a partition.
func (m *PermitCounter) Wait(p int, line Line, order int64, want int) {
	l := m.limit(line.Limit)
	at := spot{p, line}
	w := l.lines[at]
	if w == nil {
		w = &waiter{spot: at, at: -1}
		l.lines[at] = w
	}
	l.waiting.remove(w)
	w.order, w.want = order, want
	heap.Push(&l.waiting, w)
	m.serve(l)
}

// Pass is [Limiter.Pass] for a partition.
func (m *PermitCounter) Pass(p int, line Line) {
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

// Leave is [Limiter.Leave] for a partition.
func (m *PermitCounter) Leave(p int, line Line) {
	l := m.limit(line.Limit)
	if w := l.lines[spot{p, line}]; w != nil {
		l.drop(w)
	}
	m.serve(l)
}

// drop forgets a line with all that it has.
func (l *limit) drop(w *waiter) {
	l.waiting.remove(w)
	l.reserved -= w.reserved
	delete(l.lines, w.spot)
}

// Abandon forgets the lines of a partition whose term is over. Its attempts in force are still that: their tokens stay taken
// until the next term has counted them anew.
func (m *PermitCounter) Abandon(p int) {
	for _, l := range m.sorted() {
		for at, w := range l.lines {
			if at.p == p {
				l.drop(w)
			}
		}
		m.serve(l)
	}
}

// Charge takes one token for each attempt in force that a new term of a partition has found in the store, instead of those of
// the term before.
func (m *PermitCounter) Charge(p int, held []Limit) {
	for key, n := range m.held[p] {
		m.limit(key).inForce -= n
	}
	m.held[p] = nil
	for _, key := range held {
		m.hold(p, m.limit(key), 1)
	}
	for _, l := range m.sorted() {
		m.serve(l)
	}
}

// Changed looks at the limits of a namespace again, whose settings have changed; "" is all namespaces.
func (m *PermitCounter) Changed(namespace string) {
	for _, l := range m.sorted() {
		if namespace == "" || l.key.Namespace == namespace {
			m.serve(l)
		}
	}
}

// sorted is all limits in the order of their keys, so that nothing hangs on a map's.
func (m *PermitCounter) sorted() []*limit {
	return slices.SortedFunc(maps.Values(m.limits), func(a, b *limit) int {
		return a.key.compare(b.key)
	})
}

func (m *PermitCounter) limit(key Limit) *limit {
	l := m.limits[key]
	if l == nil {
		l = &limit{key: key, lines: map[spot]*waiter{}}
		m.limits[key] = l
	}
	return l
}

// hold counts attempts in force of a partition.
func (m *PermitCounter) hold(p int, l *limit, n int) {
	if m.held[p] == nil {
		m.held[p] = map[Limit]int{}
	}
	l.inForce += n
	if m.held[p][l.key] += n; m.held[p][l.key] == 0 {
		delete(m.held[p], l.key)
	}
}

// reserveAtOnce is the most tokens reserved for a line at a time.
const reserveAtOnce = 64

// serve reserves free tokens for those who wait, best first.
func (m *PermitCounter) serve(l *limit) {
	most, limited := m.limitOf(l.key)
	for len(l.waiting) > 0 {
		w := l.waiting[0]
		n := w.want
		if limited {
			if n = min(n, reserveAtOnce, most-l.inForce-l.reserved); n <= 0 || m.yields != nil && m.yields(l.key, w.order) {
				break
			}
			w.reserved += n
			l.reserved += n
		}
		l.waiting.remove(w)
		m.tell(w.p, w.line, n)
	}
	m.tidy(l)
}

// tidy forgets a limit of which nothing is known.
func (m *PermitCounter) tidy(l *limit) {
	if l.inForce == 0 && len(l.lines) == 0 {
		delete(m.limits, l.key)
	}
}

// waiters is a heap by order, then partition and line.
type waiters []*waiter

func (w *waiters) remove(x *waiter) {
	if x.at >= 0 {
		heap.Remove(w, x.at)
	}
}

func (w waiters) Len() int { return len(w) }
func (w waiters) Less(i, j int) bool {
	a, b := w[i], w[j]
	switch {
	case a.order != b.order:
		return a.order < b.order
	case a.p != b.p:
		return a.p < b.p
	}
	return a.line.Queue.String() < b.line.Queue.String()
}
func (w waiters) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].at, w[j].at = i, j
}

// Push is for container/heap.
func (w *waiters) Push(x any) {
	e := x.(*waiter)
	e.at = len(*w)
	*w = append(*w, e)
}

// Pop is for container/heap.
func (w *waiters) Pop() any {
	old := *w
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*w = old[:len(old)-1]
	e.at = -1
	return e
}

// Left says what the counter knows of; "" is nothing.
func (m *PermitCounter) Left() string {
	var left strings.Builder
	for _, l := range m.sorted() {
		fmt.Fprintf(&left, "%v: %d in force, %d reserved, %d lines; ", l.key, l.inForce, l.reserved, len(l.lines))
	}
	return left.String()
}

// What a [TokenPool] asks of its counter.

// reserved is how many tokens are reserved for a line.
func (m *PermitCounter) reserved(p int, line Line) int {
	if l := m.limits[line.Limit]; l != nil {
		if w := l.lines[spot{p, line}]; w != nil {
			return w.reserved
		}
	}
	return 0
}

// state is how many tokens are in force or reserved, and how many are wanted beyond those.
func (m *PermitCounter) state(key Limit) (used, want int) {
	l := m.limits[key]
	if l == nil {
		return 0, 0
	}
	for _, w := range l.waiting {
		want += w.want
	}
	return l.inForce + l.reserved, min(want, reserveAtOnce)
}

// first is the order of the best head that waits.
func (m *PermitCounter) first(key Limit) int64 {
	if l := m.limits[key]; l != nil && len(l.waiting) > 0 {
		return l.waiting[0].order
	}
	return NoNextWaiter
}

// knows reports whether there is anything of the limit.
func (m *PermitCounter) knows(key Limit) bool { return m.limits[key] != nil }

// again serves those who wait.
func (m *PermitCounter) again(key Limit) {
	if l := m.limits[key]; l != nil {
		m.serve(l)
	}
}
