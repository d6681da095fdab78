package engine

import (
	"container/heap"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store"
)

// limiter counts the attempts in force of limit keys over all partitions of the node, and says who goes next. A token that
// comes free is reserved for the line with the best head; its partition is told, and uses it or passes it on in its next
// round, so that no token lies idle for want of room elsewhere.
type limiter struct {
	limitOf func(partition.Limit) (n int, limited bool)
	tell    func(p int, l partition.Line, n int) // must not call back

	mu     sync.Mutex
	limits map[partition.Limit]*limit
	held   map[int]map[partition.Limit]int // by partition
}

// limit is where a limit key stands.
type limit struct {
	key      partition.Limit
	inForce  int
	reserved int
	lines    map[place]*waiter
	waiting  waiters
}

// place is a line of a partition.
type place struct {
	p    int
	line partition.Line
}

// waiter is what a line has or wants.
type waiter struct {
	place
	order    int64
	want     int
	reserved int
	at       int // in waiting; -1 = does not wait
}

func newLimiter(limitOf func(partition.Limit) (int, bool), tell func(int, partition.Line, int)) *limiter {
	return &limiter{limitOf: limitOf, tell: tell, limits: map[partition.Limit]*limit{}, held: map[int]map[partition.Limit]int{}}
}

// share is the limiter as one partition sees it.
type share struct {
	*limiter
	p int
}

// Take implements [partition.Limiter].
func (s share) Take(line partition.Line) (ok, limited bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	most, limited := s.limitOf(line.Limit)
	if !limited {
		return true, false
	}
	l := s.limit(line.Limit)
	defer s.tidy(l)
	w := l.lines[place{s.p, line}]
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
	s.hold(s.p, l, 1)
	return true, true
}

// Free implements [partition.Limiter].
func (s share) Free(key partition.Limit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.limit(key)
	s.hold(s.p, l, -1)
	s.serve(l)
}

// Wait implements [partition.Limiter].
func (s share) Wait(line partition.Line, order int64, want int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.limit(line.Limit)
	at := place{s.p, line}
	w := l.lines[at]
	if w == nil {
		w = &waiter{place: at, at: -1}
		l.lines[at] = w
	}
	l.waiting.remove(w)
	w.order, w.want = order, want
	heap.Push(&l.waiting, w)
	s.serve(l)
}

// Pass implements [partition.Limiter].
func (s share) Pass(line partition.Line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.limit(line.Limit)
	if w := l.lines[place{s.p, line}]; w != nil {
		l.reserved -= w.reserved
		w.reserved = 0
		if w.at < 0 {
			delete(l.lines, w.place)
		}
	}
	s.serve(l)
}

// Leave implements [partition.Limiter].
func (s share) Leave(line partition.Line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.limit(line.Limit)
	if w := l.lines[place{s.p, line}]; w != nil {
		l.drop(w)
	}
	s.serve(l)
}

// drop forgets a line with all that it has.
func (l *limit) drop(w *waiter) {
	l.waiting.remove(w)
	l.reserved -= w.reserved
	delete(l.lines, w.place)
}

// abandon forgets the lines of a partition whose term is over. Its attempts in force are still that: their tokens stay taken
// until the next term has counted them anew.
func (m *limiter) abandon(p int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.sorted() {
		for at, w := range l.lines {
			if at.p == p {
				l.drop(w)
			}
		}
		m.serve(l)
	}
}

// charge takes one token for each attempt in force that a new term of a partition has found in the store, instead of those of
// the term before.
func (m *limiter) charge(p int, held []partition.Limit) {
	m.mu.Lock()
	defer m.mu.Unlock()
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

// changed looks at the limits of a namespace again, whose settings have changed; "" is all namespaces.
func (m *limiter) changed(namespace string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.sorted() {
		if namespace == "" || l.key.Namespace == namespace {
			m.serve(l)
		}
	}
}

// sorted is all limits in the order of their keys, so that nothing hangs on a map's.
func (m *limiter) sorted() []*limit {
	return slices.SortedFunc(maps.Values(m.limits), func(a, b *limit) int {
		return strings.Compare(a.key.Namespace+"\x00"+a.key.Key, b.key.Namespace+"\x00"+b.key.Key)
	})
}

func (m *limiter) limit(key partition.Limit) *limit {
	l := m.limits[key]
	if l == nil {
		l = &limit{key: key, lines: map[place]*waiter{}}
		m.limits[key] = l
	}
	return l
}

// hold counts attempts in force of a partition.
func (m *limiter) hold(p int, l *limit, n int) {
	if m.held[p] == nil {
		m.held[p] = map[partition.Limit]int{}
	}
	l.inForce += n
	if m.held[p][l.key] += n; m.held[p][l.key] == 0 {
		delete(m.held[p], l.key)
	}
}

// reserveAtOnce is the most tokens reserved for a line at a time.
const reserveAtOnce = 64

// serve reserves free tokens for those who wait, best first.
func (m *limiter) serve(l *limit) {
	most, limited := m.limitOf(l.key)
	for len(l.waiting) > 0 {
		w := l.waiting[0]
		n := w.want
		if limited {
			if n = min(n, reserveAtOnce, most-l.inForce-l.reserved); n <= 0 {
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
func (m *limiter) tidy(l *limit) {
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

// tokens is news for a partition: so many tokens are reserved for the line, or it is not limited any more.
type tokens struct {
	line partition.Line
	n    int
}

// tokens tells a partition.
func (e *Engine) tokens(p int, l partition.Line, n int) {
	e.parts[p].box.put(func(m *mail) { m.tokens = append(m.tokens, tokens{l, n}) })
}

// limited is what a partition's store knows of the tokens in force.
type limited struct {
	small   []store.Small
	records []store.Record
}

// loadLimited reads which attempts in force hold tokens.
func (p *owned) loadLimited(shard store.Shard) (l limited, err error) {
	if l.small, err = allSmall(p.ctx, shard, partition.SmallLimited); err != nil || len(l.small) == 0 {
		return l, err
	}
	l.records, err = shard.Read(p.ctx, partition.LimitedRefs(l.small))
	return l, err
}
