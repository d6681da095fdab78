package partition

import (
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store"
)

// Kinds of the small records about jobs that wait for others (docs/decisions/0020). Both are in the partition of the job that
// is waited for.
const (
	SmallEdge   = 'e' // a job waits for this one: key namespace NUL this one NUL the job that waits
	SmallOutbox = 'o' // its success is to be told: key namespace NUL the job that waits NUL this one; value: the run
)

// Bounds on edges. All of a partition are in memory.
const (
	MaxEdges      = 100_000 // of one partition
	MaxDependents = 10_000  // of one job
)

const (
	edgeGrace   = time.Minute // an edge is kept this long after it was registered: the put of its job may be on its way
	edgeCheck   = time.Minute // how often the job that waits is asked whether it still does
	letterAgain = time.Second // when a success that could not be told is told again
)

// Edge says that the job Name waits for successes of the job Of, of the same namespace.
type Edge struct {
	Of   carillon.Key
	Name string
}

// Waiting is the key of the job that waits.
func (e Edge) Waiting() carillon.Key { return carillon.Key{Namespace: e.Of.Namespace, Name: e.Name} }

func (e Edge) edgeKey() string {
	return strings.Join([]string{e.Of.Namespace, e.Of.Name, e.Name}, "\x00")
}
func (e Edge) outboxKey() string {
	return strings.Join([]string{e.Of.Namespace, e.Name, e.Of.Name}, "\x00")
}

// Letter is a success to be told to a job that waits for it.
type Letter struct {
	Edge
	By carillon.RunIdentity
	// Stamp orders the letters of an edge, over all owners: what has been overtaken by a newer one changes nothing. It is the
	// epoch of the owner in the upper half, and counts his letters in the lower one.
	Stamp uint64
}

// Answer is what became of a letter.
type Answer uint8

// The answers.
const (
	Unheard Answer = iota // it could not be told; once more
	Taken                 // the job knows, durably
	Nobody                // there is no such job, or it does not wait
)

// edge is an Edge in memory.
type edge struct {
	Edge
	registered int64
	seq        uint64 // the batch that holds its record
	gone       bool
}

// letter is a SmallOutbox in memory.
type letter struct {
	Letter
	seq    uint64 // the batch that holds it
	again  int64  // not to be told before
	flying bool   // told, not yet answered: the next one waits, so that successes are heard in their order
	gone   bool
}

// edges are who waits for the partition's jobs, and what is to be told to them.
type edges struct {
	of      map[carillon.Key][]*edge // in order of registration
	n       int
	checks  []checkup // in order of time
	outbox  map[Edge]*letter
	letters []*letter // the same, in order
	stamps  uint32    // given to letters
}

type checkup struct {
	edge *edge
	at   int64
}

// Register notes that a job waits for another one, before it is put; exists says whether the other one is a job now.
func (m *Machine) Register(now int64, want Edge) (exists bool, err error) {
	exists = m.find(want.Of) != nil
	if e := m.edges.find(want); e != nil {
		e.registered = now
		m.wait(e.seq)
		return exists, nil
	}
	switch {
	case m.edges.n >= MaxEdges:
		return exists, carillon.Errorf(carillon.ResourceExhausted, "after", "%d jobs wait for jobs of this partition, which is the most", MaxEdges)
	case len(m.edges.of[want.Of]) >= MaxDependents:
		return exists, carillon.Errorf(carillon.ResourceExhausted, "after", "%d jobs wait for job %.64q, which is the most",
			MaxDependents, want.Of.Name)
	}
	m.Write(store.Small{Kind: SmallEdge, Key: want.edgeKey(), Value: []byte{1}})
	m.edges.add(&edge{Edge: want, registered: now, seq: m.out.seq})
	return exists, nil
}

func (s *edges) find(want Edge) *edge {
	for _, e := range s.of[want.Of] {
		if e.Name == want.Name {
			return e
		}
	}
	return nil
}

func (s *edges) add(e *edge) {
	s.of[e.Of] = append(s.of[e.Of], e)
	s.n++
	s.checks = append(s.checks, checkup{e, e.registered + int64(edgeCheck)})
}

// LoadEdges takes the small records of kind SmallEdge, at takeover. Their puts may be on their way again.
func (m *Machine) LoadEdges(records []store.Small, now int64) {
	for _, r := range records {
		if p := strings.Split(r.Key, "\x00"); len(p) == 3 {
			m.edges.add(&edge{Edge: Edge{Of: carillon.Key{Namespace: p[0], Name: p[1]}, Name: p[2]}, registered: now})
		}
	}
}

// LoadOutbox takes the small records of kind SmallOutbox, at takeover: they are told again.
func (m *Machine) LoadOutbox(records []store.Small) {
	for _, r := range records {
		by, err := carillon.ParseRunIDBytes(r.Value)
		if p := strings.Split(r.Key, "\x00"); len(p) == 3 && err == nil {
			m.post(Letter{Edge: Edge{Of: carillon.Key{Namespace: p[0], Name: p[2]}, Name: p[1]}, By: by})
		}
	}
}

// post has a letter told once the batch that fills is durable, in place of an older one.
func (m *Machine) post(l Letter) {
	old := m.edges.outbox[l.Edge]
	if old == nil {
		old = &letter{Letter: l}
		m.edges.outbox[l.Edge] = old
		m.edges.letters = append(m.edges.letters, old)
	}
	m.edges.stamps++
	old.By, old.again, old.Stamp = l.By, 0, m.cfg.Term.Epoch<<32|uint64(m.edges.stamps)
}

// tellOthers has the success of e's run told to the jobs that wait for it: what is to be told becomes durable with it.
func (m *Machine) tellOthers(e *entry, by carillon.RunIdentity) {
	for _, d := range m.edges.of[e.ref.Key] {
		l := Letter{Edge: d.Edge, By: by}
		m.post(l)
		m.edges.outbox[d.Edge].seq = m.out.seq
		m.Write(store.Small{Kind: SmallOutbox, Key: d.outboxKey(), Value: by.AppendBinary(nil)})
	}
}

// Letters are at most n that are to be told now. Each is answered with Answered.
func (m *Machine) Letters(now int64, n int) []Letter {
	var out []Letter
	m.edges.letters = slices.DeleteFunc(m.edges.letters, func(l *letter) bool { return l.gone })
	for _, l := range m.edges.letters {
		if len(out) == n {
			break
		}
		if !l.flying && l.seq <= m.out.durable && l.again <= now {
			l.flying = true
			out = append(out, l.Letter)
		}
	}
	return out
}

// Answered takes the answer to a letter.
func (m *Machine) Answered(now int64, told Letter, a Answer) {
	l := m.edges.outbox[told.Edge]
	if l == nil {
		return
	}
	l.flying = false
	switch {
	case a == Taken && l.By == told.By:
		m.discard(l)
	case a == Nobody && m.Forget(now, told.Edge):
	case a != Taken:
		l.again = now + int64(letterAgain)
	}
}

// discard removes a letter.
func (m *Machine) discard(l *letter) {
	delete(m.edges.outbox, l.Edge)
	l.gone = true
	m.Write(store.Small{Kind: SmallOutbox, Key: l.outboxKey()})
}

// Checkups are edges of which to find out whether the job still waits: a few at a time. Those that do not are for Forget.
func (m *Machine) Checkups(now int64) []Edge {
	s := &m.edges
	most := max(16, s.n/600) // each comes up at least every ten minutes if this is asked every second
	var out []Edge
	for len(s.checks) > 0 && len(out) < most && s.checks[0].at <= now {
		c := s.checks[0]
		s.checks = s.checks[1:]
		if !c.edge.gone {
			out = append(out, c.edge.Edge)
			s.checks = append(s.checks, checkup{c.edge, now + int64(edgeCheck)})
		}
	}
	return out
}

// Forget removes an edge whose job does not wait, with what was to be told to it, unless the put of the job may be on its
// way; it reports whether it did.
func (m *Machine) Forget(now int64, old Edge) bool {
	e := m.edges.find(old)
	if e != nil {
		if now < e.registered+int64(edgeGrace) {
			return false
		}
		m.edges.remove(e)
		m.Write(store.Small{Kind: SmallEdge, Key: old.edgeKey()})
	}
	if l := m.edges.outbox[old]; l != nil {
		m.discard(l)
	}
	return true
}

func (s *edges) remove(e *edge) {
	e.gone = true
	s.n--
	rest := slices.DeleteFunc(s.of[e.Of], func(o *edge) bool { return o == e })
	if s.of[e.Of] = rest; len(rest) == 0 {
		delete(s.of, e.Of)
	}
}

// WaitsFor reports whether a job waits for another one, durably.
func (m *Machine) WaitsFor(want Edge) bool {
	e := m.find(want.Waiting())
	return e != nil && waitFor(&e.state, want.Of.Name) >= 0
}

// Release tells a job of a success that it may wait for. The same success told again changes nothing, and neither does one that
// comes after a newer one: it was on its way from an owner whose term is over.
func (m *Machine) Release(l Letter) Answer {
	e := m.find(l.Waiting())
	if e == nil {
		return Nobody
	}
	i := waitFor(&e.state, l.Of.Name)
	switch {
	case i < 0:
		return Nobody
	case e.state.Waits[i].By == l.By, l.Stamp != 0 && l.Stamp < e.state.Waits[i].Told:
		m.touch(e) // written once more: if the store has gone back it refuses, and the job may not know
		return Taken
	}
	m.touch(e)
	waits := slices.Clone(e.state.Waits) // the old ones may be in a batch
	waits[i].By, waits[i].Open, waits[i].Told = l.By, true, max(l.Stamp, waits[i].Told)
	e.state.Waits = waits
	if allOpen(&e.state) {
		unwait(&e.state)
	}
	m.rearm(e)
	return Taken
}

// ReleaseIf is Release of a success that was found in the history, for a job that was found waiting: it changes nothing unless the
// job still waits, and knows of no other success than it did then.
func (m *Machine) ReleaseIf(l Letter, was carillon.RunIdentity) (released bool) {
	e := m.find(l.Waiting())
	if e == nil {
		return false
	}
	i := waitFor(&e.state, l.Of.Name)
	if i < 0 || e.state.Waits[i].Open || e.state.Waits[i].By != was {
		return false
	}
	return m.Release(l) == Taken
}
