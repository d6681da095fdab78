package partition

import (
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store"
)

// Metadata records about jobs that wait for others (docs/decisions/0020) are in the partition of the job that is waited for:
//
//	store.KindDependency  a job waits for this one: key namespace NUL this one NUL the job that waits
//	store.KindNotice      its success is to be told: key namespace NUL the job that waits NUL this one; value: the run

// Bounds on dependencies. All of a partition are in memory.
const (
	MaxDependencies = 100_000 // of one partition
	MaxDependents   = 10_000  // of one job
)

const (
	dependencyGrace = time.Minute // an dependency is kept this long after it was registered: the put of its job may be on its way
	dependencyCheck = time.Minute // how often the job that waits is asked whether it still does
	noticeRetry     = time.Second // when a success that could not be told is told again
)

// Dependency says that the job Name waits for successes of the job Of, of the same namespace.
type Dependency struct {
	Of   carillon.Key
	Name string
}

// Waiting is the key of the job that waits.
func (e Dependency) Waiting() carillon.Key {
	return carillon.Key{Namespace: e.Of.Namespace, Name: e.Name}
}

func (e Dependency) dependencyKey() string {
	return strings.Join([]string{e.Of.Namespace, e.Of.Name, e.Name}, "\x00")
}
func (e Dependency) outboxKey() string {
	return strings.Join([]string{e.Of.Namespace, e.Name, e.Of.Name}, "\x00")
}

// Notice is a success to be told to a job that waits for it.
type Notice struct {
	Dependency
	By carillon.RunIdentity
	// Stamp orders the notices of an dependency, over all owners: what has been overtaken by a newer one changes nothing. It is the
	// epoch of the owner in the upper half, and counts his notices in the lower one.
	Stamp uint64
}

// Answer is what became of a notice.
type Answer uint8

// The answers.
const (
	Unreached Answer = iota // it could not be told; once more
	Taken                   // the job knows, durably
	Nobody                  // there is no such job, or it does not wait
)

// dependency is an Edge in memory.
type dependency struct {
	Dependency
	registered int64
	seq        uint64 // the batch that holds its record
	gone       bool
}

// notice is a store.KindNotice in memory.
type notice struct {
	Notice
	seq    uint64 // the batch that holds it
	again  int64  // not to be told before
	flying bool   // told, not yet answered: the next one waits, so that successes are heard in their order
	gone   bool
}

// dependencies are who waits for the partition's jobs, and what is to be told to them.
type dependencies struct {
	of      map[carillon.Key][]*dependency // in order of registration
	n       int
	checks  []checkup // in order of time
	outbox  map[Dependency]*notice
	notices []*notice // the same, in order
	stamps  uint32    // given to notices
}

type checkup struct {
	dependency *dependency
	at         int64
}

// Register notes that a job waits for another one, before it is put; exists says whether the other one is a job now.
func (m *Machine) Register(now int64, want Dependency) (exists bool, err error) {
	exists = m.find(want.Of) != nil
	if e := m.dependencies.find(want); e != nil {
		e.registered = now
		m.wait(e.seq)
		return exists, nil
	}
	switch {
	case m.dependencies.n >= MaxDependencies:
		return exists, carillon.Errorf(carillon.ResourceExhausted, "depends_on",
			"%d jobs wait for jobs of this partition, which is the most", MaxDependencies)
	case len(m.dependencies.of[want.Of]) >= MaxDependents:
		return exists, carillon.Errorf(carillon.ResourceExhausted, "depends_on",
			"%d jobs wait for job %.64q, which is the most", MaxDependents, want.Of.Name)
	}
	m.Write(store.MetaRecord{Kind: store.KindDependency, Key: want.dependencyKey(), Value: []byte{1}})
	m.dependencies.add(&dependency{Dependency: want, registered: now, seq: m.out.seq})
	return exists, nil
}

func (s *dependencies) find(want Dependency) *dependency {
	for _, e := range s.of[want.Of] {
		if e.Name == want.Name {
			return e
		}
	}
	return nil
}

func (s *dependencies) add(e *dependency) {
	s.of[e.Of] = append(s.of[e.Of], e)
	s.n++
	s.checks = append(s.checks, checkup{e, e.registered + int64(dependencyCheck)})
}

// LoadDependencies takes the metadata records of kind store.KindDependency, at takeover. Their puts may be on their way again.
func (m *Machine) LoadDependencies(records []store.MetaRecord, now int64) {
	for _, r := range records {
		if p := strings.Split(r.Key, "\x00"); len(p) == 3 {
			m.dependencies.add(&dependency{Dependency: Dependency{Of: carillon.Key{Namespace: p[0], Name: p[1]}, Name: p[2]}, registered: now})
		}
	}
}

// LoadOutbox takes the metadata records of kind store.KindNotice, at takeover: they are told again.
func (m *Machine) LoadOutbox(records []store.MetaRecord) {
	for _, r := range records {
		by, err := carillon.ParseRunIDBytes(r.Value)
		if p := strings.Split(r.Key, "\x00"); len(p) == 3 && err == nil {
			m.post(Notice{Dependency: Dependency{Of: carillon.Key{Namespace: p[0], Name: p[2]}, Name: p[1]}, By: by})
		}
	}
}

// post has a notice told once the batch that fills is durable, in place of an older one.
func (m *Machine) post(l Notice) {
	old := m.dependencies.outbox[l.Dependency]
	if old == nil {
		old = &notice{Notice: l}
		m.dependencies.outbox[l.Dependency] = old
		m.dependencies.notices = append(m.dependencies.notices, old)
	}
	m.dependencies.stamps++
	old.By, old.again, old.Stamp = l.By, 0, m.cfg.Term.Epoch<<32|uint64(m.dependencies.stamps)
}

// tellOthers has the success of e's run told to the jobs that wait for it: what is to be told becomes durable with it.
func (m *Machine) tellOthers(e *entry, by carillon.RunIdentity) {
	for _, d := range m.dependencies.of[e.ref.Key] {
		l := Notice{Dependency: d.Dependency, By: by}
		m.post(l)
		m.dependencies.outbox[d.Dependency].seq = m.out.seq
		m.Write(store.MetaRecord{Kind: store.KindNotice, Key: d.outboxKey(), Value: by.AppendBinary(nil)})
	}
}

// Notices are at most n that are to be told now. Each is answered with Answered.
func (m *Machine) Notices(now int64, n int) []Notice {
	var out []Notice
	m.dependencies.notices = slices.DeleteFunc(m.dependencies.notices, func(l *notice) bool { return l.gone })
	for _, l := range m.dependencies.notices {
		if len(out) == n {
			break
		}
		if !l.flying && l.seq <= m.out.durable && l.again <= now {
			l.flying = true
			out = append(out, l.Notice)
		}
	}
	return out
}

// Answered takes the answer to a notice.
func (m *Machine) Answered(now int64, told Notice, a Answer) {
	l := m.dependencies.outbox[told.Dependency]
	if l == nil {
		return
	}
	l.flying = false
	switch {
	case a == Taken && l.By == told.By:
		m.discard(l)
	case a == Nobody && m.Forget(now, told.Dependency):
	case a != Taken:
		l.again = now + int64(noticeRetry)
	}
}

// discard removes a notice.
func (m *Machine) discard(l *notice) {
	delete(m.dependencies.outbox, l.Dependency)
	l.gone = true
	m.Write(store.MetaRecord{Kind: store.KindNotice, Key: l.outboxKey()})
}

// Checkups are dependencies of which to find out whether the job still waits: a few at a time. Those that do not are for Forget.
func (m *Machine) Checkups(now int64) []Dependency {
	s := &m.dependencies
	most := max(16, s.n/600) // each comes up at least every ten minutes if this is asked every second
	var out []Dependency
	for len(s.checks) > 0 && len(out) < most && s.checks[0].at <= now {
		c := s.checks[0]
		s.checks = s.checks[1:]
		if !c.dependency.gone {
			out = append(out, c.dependency.Dependency)
			s.checks = append(s.checks, checkup{c.dependency, now + int64(dependencyCheck)})
		}
	}
	return out
}

// Forget removes an dependency whose job does not wait, with what was to be told to it, unless the put of the job may be on its
// way; it reports whether it did.
func (m *Machine) Forget(now int64, old Dependency) bool {
	e := m.dependencies.find(old)
	if e != nil {
		if now < e.registered+int64(dependencyGrace) {
			return false
		}
		m.dependencies.remove(e)
		m.Write(store.MetaRecord{Kind: store.KindDependency, Key: old.dependencyKey()})
	}
	if l := m.dependencies.outbox[old]; l != nil {
		m.discard(l)
	}
	return true
}

func (s *dependencies) remove(e *dependency) {
	e.gone = true
	s.n--
	rest := slices.DeleteFunc(s.of[e.Of], func(o *dependency) bool { return o == e })
	if s.of[e.Of] = rest; len(rest) == 0 {
		delete(s.of, e.Of)
	}
}

// WaitsFor reports whether a job waits for another one, durably.
func (m *Machine) WaitsFor(want Dependency) bool {
	e := m.find(want.Waiting())
	return e != nil && waitFor(&e.state, want.Of.Name) >= 0
}

// Release tells a job of a success that it may wait for. The same success told again changes nothing, and neither does one that
// comes after a newer one: it was on its way from an owner whose term is over.
func (m *Machine) Release(l Notice) Answer {
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
func (m *Machine) ReleaseIf(l Notice, was carillon.RunIdentity) (released bool) {
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
