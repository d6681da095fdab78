package partition

import (
	"maps"
	"slices"
	"strings"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/heaps"
	"github.com/carillonhq/carillon/server/internal/permitrecord"
	"github.com/carillonhq/carillon/server/store"
)

// Limiter counts the attempts in force of concurrency keys, over all partitions of the node or, as a pool of
// permits (server/internal/permit), of the cluster. A machine calls it for itself. Calls return at once.
//
//	due run ─► ready list ─► Permits.take ── permit taken ────────────► attempt in force
//	              ▲               └─ none ─► setAside ─► line                  │
//	              │                                       │ Wait               │ its end is durable
//	           Promote ◄── permits are reserved ◄── Limiter ◄──────────────────┘ Free
//	              └── not used in this round ──► Pass
//
// A run takes a permit only when its queue has a free slot, so no permit is held by a run that waits for a
// consumer. A permit that comes free is reserved for a line for one round. What the round does not use is
// passed on, so that no permit stays idle while its line waits for slots. [Permits] says how a run takes
// several.
type Limiter interface {
	// Take takes a permit for an attempt, preferably one that is reserved for the line. limited is false if
	// the key has no limit: then no permit is needed and none was taken.
	Take(l delivery.Line) (ok, limited bool)
	// Free returns a permit, once the end of its attempt is durable, or at once if none has begun.
	Free(l delivery.Limit)
	// Spend uses up the permit of a rate ([delivery.Limit.IsRate]): the attempt for which it was taken begins.
	Spend(l delivery.Limit)
	// Wait says that want runs of the line wait. order is the line's place among the lines of the limit; the
	// lowest goes first. Permits will be reserved for the line, once: see [Machine.Promote].
	Wait(l delivery.Line, order int64, want int)
	// Pass returns the permits that are reserved for the line.
	Pass(l delivery.Line)
	// Leave ends the line: nothing waits in it any more.
	Leave(l delivery.Line)
}

// unlimited is the limiter of a machine that was given none.
type unlimited struct{}

func (unlimited) Take(delivery.Line) (ok, limited bool) { return true, false }
func (unlimited) Free(delivery.Limit)                   {}
func (unlimited) Spend(delivery.Limit)                  {}
func (unlimited) Wait(delivery.Line, int64, int)        {}
func (unlimited) Pass(delivery.Line)                    {}
func (unlimited) Leave(delivery.Line)                   {}

// Attempts in force that hold permits are named by metadata records (store.KindLimited), one for each permit,
// so that a new owner can count them before it hands anything out.

// Permits are the lines of runs that wait for permits, and the permits that attempts in force hold.
//
// A run may be under several limits ([delivery.AppendLimits]). It takes their permits in a fixed order, waits
// in the line of the first that has none, and keeps what it has taken before while it stands in that line. So
// nobody waits for a permit whose holder waits for one before it in the order: there is no deadlock, and a
// permit that comes free lets one run go and moves no others from line to line. Whatever takes the run out
// of the line, but for a grant in the same round, returns what it has kept: no permit is held by a run that
// waits for a consumer, is parked in the store, or ends.
type Permits struct {
	limiter  Limiter
	rated    func(namespace string) *carillon.Namespace // see [Config.Rated]
	out      *builder
	queues   *Queues
	lines    map[delivery.Line]*line        // runs that wait for permits
	told     []*line                        // lines with permits reserved in this round
	promoted []*entry                       // runs of these lines that have kept permits
	stalled  []*line                        // lines that must start waiting again
	charged  map[store.Ref][]delivery.Limit // permits of attempts in force whose records are not in memory
	tallies  tallies
}

func newPermits(cfg *Config, out *builder, queues *Queues) *Permits {
	return &Permits{limiter: cfg.Limiter, rated: cfg.Rated, out: out, queues: queues,
		lines: map[delivery.Line]*line{}, charged: map[store.Ref][]delivery.Limit{}, tallies: tallies{}}
}

// permits are the limits of which a run holds a permit. Most runs hold none, so theirs is nil.
type permits struct{ of []delivery.Limit }

func (p *permits) limits() []delivery.Limit {
	if p == nil {
		return nil
	}
	return p.of
}

func (p *permits) has(l delivery.Limit) bool { return slices.Contains(p.limits(), l) }

// and returns p with one more.
func (p *permits) and(l delivery.Limit) *permits {
	if p == nil {
		p = &permits{}
	}
	p.of = append(p.of, l)
	return p
}

// line holds the runs of one queue that found no permit of their limit. While it holds any, one of three
// things is true: it waits for permits; or some of its runs are back in the ready list, to take a permit when
// the queue has a slot; or it is stalled until the next round or commit.
type line struct {
	key     delivery.Line
	list    heaps.Of[waiting]
	tries   int   // how many of its runs are in the ready list
	waits   bool  // it waits for the Limiter to reserve permits
	permits int   // how many runs may be read back from the store in this round
	first   int64 // lower bound on the order of its runs in the store
}

// line finds or makes the line.
func (p *Permits) line(key delivery.Line) *line {
	l := p.lines[key]
	if l == nil {
		l = &line{key: key}
		p.lines[key] = l
	}
	return l
}

// take takes the permits that e needs to begin an attempt, as far as it has not kept them: one of each limit
// that its job is under. ok is false if there is none of one of them; then e must wait in the line key.
func (p *Permits) take(e *entry) (key delivery.Line, ok bool) {
	var limits [delivery.MostLimits]delivery.Limit
	for _, l := range delivery.AppendLimits(limits[:0], e.job(), p.rated(e.ref.Namespace)) {
		if slices.Contains(e.permits.limits(), l) {
			continue
		}
		key = delivery.Line{Limit: l, Queue: *e.queue}
		ok, limited := p.limiter.Take(key)
		switch {
		case !ok:
			return key, false
		case limited:
			e.permits = e.permits.and(l)
		}
	}
	return key, true
}

// charge makes the permits that e has taken those of the attempt that begins.
func (p *Permits) charge(e *entry) {
	for _, l := range e.permits.limits() {
		if l.IsRate() {
			continue // used up by [Permits.spend], so a new owner has nothing to count
		}
		e.state.Run.Limited = true
		p.tallies.begin(l)
		p.out.small = append(p.out.small,
			permitrecord.Held{Limit: l, Of: e.ref}.Record())
	}
}

// spend uses up the permits of rates that e's attempt has taken, when it is handed out.
func (p *Permits) spend(e *entry) {
	if !slices.ContainsFunc(e.permits.limits(), delivery.Limit.IsRate) {
		return
	}
	e.permits.of = slices.DeleteFunc(e.permits.of, func(l delivery.Limit) bool {
		if l.IsRate() {
			p.limiter.Spend(l)
		}
		return l.IsRate()
	})
	if len(e.permits.of) == 0 {
		e.permits = nil
	}
}

// ordered returns the lines by name, so that nothing depends on a map's order.
func (p *Permits) ordered() []*line {
	return slices.SortedFunc(maps.Values(p.lines),
		func(a, b *line) int { return strings.Compare(a.key.String(), b.key.String()) })
}

// release returns the permits of e's attempt once the end of the attempt is durable.
func (p *Permits) release(e *entry) {
	if e.permits == nil {
		return
	}
	p.giveBack(e.permits.limits(), e.ref)
	e.permits, e.state.Run.Limited = nil, false
}

func (p *Permits) giveBack(limits []delivery.Limit, ref store.Ref) {
	for _, l := range limits {
		p.out.permits = append(p.out.permits, l)
		if l.IsRate() {
			continue // of an attempt that was withdrawn
		}
		p.tallies.end(l)
		free := permitrecord.Held{Limit: l, Of: ref}.Record()
		free.Value = nil
		p.out.small = append(p.out.small, free)
	}
}

// releaseAll returns the permits of a deleted job's attempts that are not in memory. They end with the job.
func (p *Permits) releaseAll(key carillon.Key) {
	var refs []store.Ref
	for ref := range p.charged {
		if ref.Key == key {
			refs = append(refs, ref)
		}
	}
	slices.SortFunc(refs, store.Ref.Compare)
	for _, ref := range refs {
		p.giveBack(p.charged[ref], ref)
		delete(p.charged, ref)
	}
}

// adopt takes over the permits of an attempt that an earlier owner handed out.
func (p *Permits) adopt(e *entry) {
	if held, charged := p.charged[e.ref]; charged {
		e.permits = &permits{held}
		delete(p.charged, e.ref)
	}
}

// leaveLine notes that e has left its line, or the ready list into which the line had sent it.
func (p *Permits) leaveLine(e *entry, from place) {
	l := e.line
	e.line = nil
	if from != aside {
		l.tries--
	}
	p.request(l)
}

// request makes the line wait for permits if any of its runs need them. A line without runs is forgotten.
func (p *Permits) request(l *line) {
	inStore := p.parkedIn(l)
	switch {
	case p.lines[l.key] != l || l.tries > 0:
	case len(l.list) == 0 && !inStore:
		delete(p.lines, l.key)
		p.limiter.Leave(l.key)
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
		p.limiter.Wait(l.key, order, want)
	}
}

// loadTokens is how many more permits a line asks for if it has runs in the store, whose number is not known.
const loadTokens = 64

// parkedIn reports whether runs of the line are parked.
func (p *Permits) parkedIn(l *line) bool {
	st := p.queues.queues[l.key.Parked()]
	return st != nil && !st.parked.none
}

// Promote says that n permits of the line's limit are reserved for it, or that n of its runs may go because
// it is not limited any more. As many of its runs return to their queue. What is not used until
// [Permits.ReturnUnused] is returned.
func (m *Machine) Promote(now int64, key delivery.Line, n int) {
	l := m.Permits.lines[key]
	if l == nil {
		return // the line has ended, and with it what was reserved
	}
	l.waits = false
	m.Permits.told = append(m.Permits.told, l)
	// Count the line as trying meanwhile, so that it is neither awaited nor forgotten.
	for l.tries++; n > 0 && len(l.list) > 0; n-- {
		e := l.list[0].entry
		since := e.readyAt
		m.due.unlist(e)
		m.due.enqueue(e, now)
		if e.place != ready {
			m.Permits.forgo(e)
			continue
		}
		e.line, e.readyAt = l, since
		l.tries++
		if e.permits != nil {
			m.Permits.promoted = append(m.Permits.promoted, e)
		}
	}
	l.tries--
	l.permits = n
}

// Promoted returns the names under which the runs are parked for which permits are reserved in this round.
func (p *Permits) Promoted() (out []delivery.Queue) {
	for _, l := range p.told {
		if l.permits > 0 {
			out = append(out, l.key.Parked())
		}
	}
	return out
}

// reserved returns how many parked runs of a line may be read back.
func (p *Permits) reserved(key delivery.Line) int {
	if l := p.lines[key]; l != nil {
		return l.permits
	}
	return 0
}

// try counts a run that was read back into the ready list among those that try to take a permit.
func (p *Permits) try(e *entry, key delivery.Line) {
	l := p.line(key)
	e.line = l
	l.tries++
	l.permits = max(0, l.permits-1)
}

// markUnread notes that runs of a line have been evicted from memory and are in the store only.
func (p *Permits) markUnread(q delivery.Queue) {
	if key, limited := q.Line(); limited {
		p.stalled = append(p.stalled, p.line(key))
	}
}

// ReturnUnused returns the permits that were reserved for lines and not used in this round, and what runs of
// these lines have kept for want of slots. The engine calls it at the end of a round.
func (p *Permits) ReturnUnused() {
	for _, e := range p.promoted {
		if e.place == ready {
			p.forgo(e)
		}
	}
	p.promoted = recycle(p.promoted)
	for _, l := range p.told {
		if l.tries > 0 { // the queue has no free slot: those behind would find none either
			p.forgoAll(l)
		}
		l.permits = 0
		p.limiter.Pass(l.key)
		if l.tries == 0 {
			p.stalled = append(p.stalled, l)
		}
	}
	p.told = p.told[:0]
}

// WaitAgain makes those lines wait again that could not use their permits. The engine calls it about once
// a second.
func (p *Permits) WaitAgain() {
	for len(p.stalled) > 0 {
		l := p.stalled[0]
		p.stalled = p.stalled[1:]
		p.request(l)
	}
	p.stalled = nil
}

// StageAside parks at most n runs that have waited for a permit since before (UTC ns), and returns how many.
// Those that have kept other permits are left in memory, as long as there are others: parked, they would have
// to take them again.
func (w *Window) StageAside(before int64, n int) int {
	lines := w.due.permits.ordered()
	done := w.stageThose(lines, before, n, func(e *entry) bool { return e.permits == nil })
	if done == 0 {
		done = w.stageThose(lines, before, n, func(*entry) bool { return true })
	}
	return done
}

func (w *Window) stageThose(lines []*line, before int64, n int, may func(*entry) bool) (done int) {
	for _, l := range lines {
		l.tries++ // so that it is not forgotten meanwhile
		for i := len(l.list) - 1; i >= 0 && done < n; i-- {
			if i >= len(l.list) {
				continue // parking a run also took others from the list
			}
			if e := l.list[i].entry; e.readyAt <= before && may(e) {
				w.parkAside(e, l)
				done++
			}
		}
		l.tries--
		w.due.permits.request(l)
	}
	return done
}

func (w *Window) parkAside(e *entry, l *line) {
	order := e.order()
	if !w.due.permits.parkedIn(l) || order < l.first {
		l.first = order
	}
	w.park(e, w.due.queues.queue(l.key.Parked()))
}

// parkedRight reports whether a parked run is filed under the queue or a line that its job's content calls
// for.
func (e *entry) parkedRight() bool {
	q := e.targetQueue()
	if e.state.Queue == q.String() {
		return true
	}
	var limits [delivery.MostLimits]delivery.Limit
	return slices.ContainsFunc(delivery.AppendAnyLimits(limits[:0], e.job()), func(l delivery.Limit) bool {
		return e.state.Queue == delivery.Line{Limit: l, Queue: q}.String()
	})
}

// LimitedRefs returns the refs of the records that the metadata records of kind store.KindLimited name.
func LimitedRefs(records []store.MetaRecord) []store.Ref {
	var refs []store.Ref
	for _, r := range records {
		if h, ok := permitrecord.ParseHeld(&r); ok {
			refs = append(refs, h.Of)
		}
	}
	return refs
}

// load takes, at takeover, the metadata records of kind store.KindLimited and the records that they
// name. It returns the permits that attempts in force hold. A metadata record without such an attempt is
// removed.
func (p *Permits) load(small []store.MetaRecord, records []store.Record) []delivery.Limit {
	inForce := make(map[store.Ref]bool, len(records))
	for i := range records {
		s := &records[i].State
		inForce[records[i].Ref] = records[i].Exists && s.Run.Live &&
			s.Phase == carillon.PhaseRunning && s.Run.Limited
	}
	var held []delivery.Limit
	for _, r := range small {
		h, ok := permitrecord.ParseHeld(&r)
		if !ok || !inForce[h.Of] {
			p.out.small = append(p.out.small, store.MetaRecord{Kind: store.KindLimited, Key: r.Key})
			continue
		}
		p.charged[h.Of] = append(p.charged[h.Of], h.Limit)
		p.tallies.begin(h.Limit)
		held = append(held, h.Limit)
	}
	return held
}

// order is e's place among the runs that wait for the same limit, in ns. It combines priority and due time:
// one priority counts as much as ageStep of waiting, so that none starves.
func (e *entry) order() int64 { return int64(e.state.Priority)*int64(ageStep) + e.state.Run.Due }

// waiting is a run in a line.
type waiting struct{ *entry }

// Before orders the runs of a line by order, then ref.
func (w waiting) Before(o waiting) bool {
	if a, b := w.order(), o.order(); a != b {
		return a < b
	}
	return w.ref.Compare(o.ref) < 0
}
