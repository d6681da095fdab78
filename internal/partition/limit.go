package partition

import (
	"container/heap"
	"slices"
	"strconv"
	"strings"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store"
)

// Limit is a concurrency key in its namespace.
type Limit struct{ Namespace, Key string }

// Line is where runs wait for tokens of a limit: one for each queue that they are in.
type Line struct {
	Limit
	Queue Queue
}

// Limiter counts the attempts in force of concurrency keys, over all partitions of the node. A machine calls it for itself; it
// answers at once.
type Limiter interface {
	// Take takes a token for an attempt, first one that is reserved for the line. limited is false if the key has no limit:
	// no token is needed then, and none was taken.
	Take(l Line) (ok, limited bool)
	// Free gives a token back: the end of its attempt is durable.
	Free(l Limit)
	// Wait says that want runs of the line wait, in this order among the lines of the limit (less goes first). Tokens will be
	// reserved for it, once: see [Machine.Promote].
	Wait(l Line, order int64, want int)
	// Pass gives back what is reserved for the line.
	Pass(l Line)
	// Leave ends the line: nothing waits in it any more.
	Leave(l Line)
}

// unlimited is the limiter of a machine that has been given none.
type unlimited struct{}

func (unlimited) Take(Line) (ok, limited bool) { return true, false }
func (unlimited) Free(Limit)                   {}
func (unlimited) Wait(Line, int64, int)        {}
func (unlimited) Pass(Line)                    {}
func (unlimited) Leave(Line)                   {}

// Attempts in force that hold a permit are named by metadata records (store.KindLimited), so that a new owner knows them before it hands
// anything out.

// line is the runs of one queue that found no token of their limit. While it holds any, it waits for a token, or some of
// its runs are back in the ready list (they take a token when the queue has room), or it is stalled until the next round
// or commit.
type line struct {
	key     Line
	list    asideList
	tries   int   // its runs that are in the ready list
	waits   bool  // for Limiter to reserve tokens
	permits int   // how many runs may be read back from the store in this round
	first   int64 // at most the order of those in the store
}

// String is the line as the store knows it, like a queue of its own; concurrency keys hold no zero byte.
func (l Line) String() string { return l.Parked().String() }

// Parked names the line's runs in the store, as a queue of their own.
func (l Line) Parked() Queue {
	q := l.Queue
	q.Address += "\x00" + l.Key
	return q
}

// Limited reports whether q names runs that are parked for want of a token.
func (q Queue) Limited() bool { return strings.Contains(q.Address, "\x00") }

// lineOf is the line whose parked runs q names; ok is false if q is a queue.
func lineOf(q Queue) (l Line, ok bool) {
	address, key, ok := strings.Cut(q.Address, "\x00")
	q.Address = address
	return Line{Limit: Limit{q.Namespace, key}, Queue: q}, ok
}

// line finds or makes the line.
func (m *Machine) line(key Line) *line {
	l := m.lines[key]
	if l == nil {
		l = &line{key: key}
		m.lines[key] = l
	}
	return l
}

// takePermit takes what e's job needs of its limit to begin an attempt; ok is false if there is none, and e waits in the line.
func (m *Machine) takePermit(e *entry) (key Line, ok bool) {
	j := m.jobOf(e)
	if j.ConcurrencyKey == "" {
		return key, true
	}
	key = Line{Limit: Limit{e.ref.Namespace, j.ConcurrencyKey}, Queue: *e.queue}
	ok, limited := m.cfg.Limiter.Take(key)
	if ok && limited {
		e.state.Run.Limited, e.limit = true, new(key.Limit)
		m.out.small = append(m.out.small, store.MetaRecord{Kind: store.KindLimited, Key: limitedKey(key.Limit, e.ref), Value: []byte{1}})
	}
	return key, ok
}

// returnPermitOnceEnded gives the token of e's attempt back once its end is durable.
func (m *Machine) returnPermitOnceEnded(e *entry) {
	if e.limit == nil {
		return
	}
	m.returnPermit(*e.limit, e.ref)
	e.limit, e.state.Run.Limited = nil, false
}

func (m *Machine) returnPermit(l Limit, ref store.Ref) {
	m.out.small = append(m.out.small, store.MetaRecord{Kind: store.KindLimited, Key: limitedKey(l, ref)})
	m.out.tokens = append(m.out.tokens, l)
}

// releaseAll gives back the tokens of a deleted job's attempts that are not in memory: they go with it.
func (m *Machine) releaseAll(key carillon.Key) {
	var refs []store.Ref
	for ref := range m.charged {
		if ref.Key == key {
			refs = append(refs, ref)
		}
	}
	slices.SortFunc(refs, store.Ref.Compare)
	for _, ref := range refs {
		m.returnPermit(m.charged[ref], ref)
		delete(m.charged, ref)
	}
}

// adoptPermit goes on with the token of an attempt that an earlier owner handed out.
func (m *Machine) adoptPermit(e *entry) {
	if l, charged := m.charged[e.ref]; charged {
		e.limit = new(l)
		delete(m.charged, e.ref)
	}
}

// setAside lets a due run wait for a token.
func (m *Machine) setAside(e *entry, key Line) {
	l := m.line(key)
	e.place, e.line = aside, l
	heap.Push(&l.list, e)
	m.rearm(e)
	if l.waits && l.list[0] == e {
		l.waits = l.tries > 0 // it goes before those for whom the line waits
	}
	m.await(l)
}

// leaveLine is told that e has left its line, or the ready list into which the line sent it.
func (m *Machine) leaveLine(e *entry, from place) {
	l := e.line
	e.line = nil
	if from != aside {
		l.tries--
	}
	m.await(l)
}

// await lets the line wait for tokens, if any of its runs need them; a line without runs is forgotten.
func (m *Machine) await(l *line) {
	inStore := m.parkedIn(l)
	switch {
	case m.lines[l.key] != l || l.tries > 0:
	case len(l.list) == 0 && !inStore:
		delete(m.lines, l.key)
		m.cfg.Limiter.Leave(l.key)
	case l.waits:
	default:
		want, order := len(l.list), l.first
		if want > 0 {
			order = l.list[0].order()
		}
		if inStore {
			want += loadTokens
		}
		l.waits = true
		m.cfg.Limiter.Wait(l.key, order, want)
	}
}

// loadTokens is how many tokens a line asks for whose runs are in the store: nobody knows how many they are.
const loadTokens = 64

// parkedIn reports whether runs of the line are parked.
func (m *Machine) parkedIn(l *line) bool {
	st := m.queues[l.key.Parked()]
	return st != nil && !st.parked.none
}

// Promote takes the news that n tokens of a line's limit are reserved for it, or that it is not limited any more: as many of
// its runs go back to their queue. What is not used until [Machine.PassTokens] is given back.
func (m *Machine) Promote(now int64, key Line, n int) {
	l := m.lines[key]
	if l == nil {
		return // it has left, and what was reserved with it
	}
	l.waits = false
	m.told = append(m.told, l)
	for l.tries++; n > 0 && len(l.list) > 0; n-- { // counted as trying meanwhile, so that it is not awaited or forgotten
		e := l.list[0]
		since := e.readyAt
		m.dequeue(e)
		m.enqueue(e, now)
		if e.place == ready {
			e.line, e.readyAt = l, since
			l.tries++
		}
	}
	l.tries--
	l.permits = n
}

// permitsFor is how many parked runs of a line may be read back.
func (m *Machine) permitsFor(key Line) int {
	if l := m.lines[key]; l != nil {
		return l.permits
	}
	return 0
}

// try counts a run that has been read back into the ready list among those that try to get a token.
func (m *Machine) try(e *entry, key Line) {
	l := m.line(key)
	e.line = l
	l.tries++
	l.permits = max(0, l.permits-1)
}

// markUnread says that runs of a line have gone from memory that are in the store.
func (m *Machine) markUnread(q Queue) {
	if key, limited := lineOf(q); limited {
		m.stalled = append(m.stalled, m.line(key))
	}
}

// PassPermits gives back the tokens that were reserved for lines and have not been used in this round. The engine calls it at
// the end of a round.
func (m *Machine) PassPermits() {
	for _, l := range m.told {
		l.permits = 0
		m.cfg.Limiter.Pass(l.key)
		if l.tries == 0 {
			m.stalled = append(m.stalled, l)
		}
	}
	m.told = m.told[:0]
}

// AwaitPermits lets those lines wait again that could not use the tokens they had. The engine calls it now and then.
func (m *Machine) AwaitPermits() {
	for len(m.stalled) > 0 {
		l := m.stalled[0]
		m.stalled = m.stalled[1:]
		m.await(l)
	}
	m.stalled = nil
}

// StageAside parks runs that wait for a token since before (UTC ns), at most n. It returns how many.
func (m *Machine) StageAside(before int64, n int) int {
	var lines []*line
	for _, l := range m.lines {
		lines = append(lines, l)
	}
	slices.SortFunc(lines, func(a, b *line) int { return strings.Compare(a.key.String(), b.key.String()) })
	done := 0
	for _, l := range lines {
		l.tries++ // so that it is not forgotten meanwhile
		for i := len(l.list) - 1; i >= 0 && done < n; i-- {
			if i >= len(l.list) {
				continue // the parked run's record took others with it
			}
			if e := l.list[i]; e.readyAt <= before {
				m.parkAside(e, l)
				done++
			}
		}
		l.tries--
		m.await(l)
	}
	return done
}

func (m *Machine) parkAside(e *entry, l *line) {
	order := e.order()
	if !m.parkedIn(l) || order < l.first {
		l.first = order
	}
	m.park(e, m.queue(l.key.Parked()))
}

// parkedRight reports whether a parked run is filed where its job's content says.
func (m *Machine) parkedRight(e *entry) bool {
	q := m.queueOf(e)
	if e.state.Queue == q.String() {
		return true
	}
	key := m.jobOf(e).ConcurrencyKey
	return key != "" && e.state.Queue == Line{Limit: Limit{e.ref.Namespace, key}, Queue: q}.String()
}

// limitedKey is the key of the metadata record of an attempt that holds a token.
func limitedKey(l Limit, ref store.Ref) string {
	return strings.Join([]string{l.Key, ref.Namespace, ref.Name, strconv.FormatUint(ref.Seq, 10)}, "\x00")
}

// parseLimited reads what limitedKey wrote.
func parseLimited(key string) (l Limit, ref store.Ref, ok bool) {
	parts := strings.Split(key, "\x00")
	if len(parts) != 4 {
		return l, ref, false
	}
	seq, err := strconv.ParseUint(parts[3], 10, 64)
	ref = store.Ref{Key: carillon.Key{Namespace: parts[1], Name: parts[2]}, Seq: seq}
	return Limit{parts[1], parts[0]}, ref, err == nil
}

// LimitedRefs is the records that metadata records of kind store.KindLimited are about.
func LimitedRefs(records []store.MetaRecord) []store.Ref {
	var refs []store.Ref
	for _, r := range records {
		if _, ref, ok := parseLimited(r.Key); ok {
			refs = append(refs, ref)
		}
	}
	return refs
}

// LoadLimited takes the metadata records of kind store.KindLimited and the records that they are about, at takeover. It returns the
// tokens that attempts in force hold; a metadata record without such an attempt is removed.
func (m *Machine) LoadLimited(small []store.MetaRecord, records []store.Record) []Limit {
	inForce := make(map[store.Ref]bool, len(records))
	for i := range records {
		s := &records[i].State
		inForce[records[i].Ref] = records[i].Exists && s.Run.Live && s.Phase == carillon.PhaseRunning && s.Run.Limited
	}
	var held []Limit
	for _, r := range small {
		l, ref, ok := parseLimited(r.Key)
		if _, twice := m.charged[ref]; !ok || twice || !inForce[ref] {
			m.out.small = append(m.out.small, store.MetaRecord{Kind: store.KindLimited, Key: r.Key})
			continue
		}
		m.charged[ref] = l
		held = append(held, l)
	}
	return held
}

// order is where e's run stands among those that wait for the same limit: by priority and due, where a priority counts as much as
// ageStep of waiting, so that none starves.
func (e *entry) order() int64 { return int64(e.state.Priority)*int64(ageStep) + e.state.Run.Due }

// asideList is a heap of due runs by order, then ref.
type asideList []*entry

func (l asideList) Len() int { return len(l) }
func (l asideList) Less(i, j int) bool {
	if a, b := l[i].order(), l[j].order(); a != b {
		return a < b
	}
	return l[i].ref.Compare(l[j].ref) < 0
}
func (l asideList) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].slot, l[j].slot = int32(i), int32(j)
}

// Push is for container/heap.
func (l *asideList) Push(x any) {
	e := x.(*entry)
	e.slot = int32(len(*l))
	*l = append(*l, e)
}

// Pop is for container/heap.
func (l *asideList) Pop() any {
	old := *l
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*l = old[:len(old)-1]
	return e
}
