package partition

import (
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/identity"
	"github.com/carillonhq/carillon/store"
)

// A job that depends on others (docs/decisions/0020) is known in the partitions of the jobs that it waits
// for, by metadata records there. A dependency says who waits; a notice is a success that has yet to be told
// to the job that waits. Of is the job that is waited for, Name the job that waits:
//
//	store.KindDependency  key: namespace NUL Of NUL Name
//	store.KindNotice      key: namespace NUL Name NUL Of; value: the run that succeeded
//
//	partition of Of                                  partition of Name
//	Register  ◄──────────────────────────────────── before the put of the job that waits
//	run succeeds: the notice is in its batch
//	Notices, once that is durable ────────────────► Release: opens the wait
//	Answered  ◄──────────────────────────────────── once that is durable
//	Checkups ─────────────────────────────────────► WaitsFor
//	Forget    ◄──────────────────────────────────── it does not wait any more

// Bounds on dependencies. All dependencies of a partition are in memory.
const (
	MaxDependencies = 100_000 // of one partition
	MaxDependents   = 10_000  // of one job
)

const (
	// A dependency is kept this long after it was registered: the put of its job may be on its way.
	dependencyGrace = time.Minute
	dependencyCheck = time.Minute // how often the job that waits is asked whether it still waits
	noticeRetry     = time.Second // when a notice that could not be delivered is sent again
)

// Dependency says that the job Name waits for successes of the job Of, in the same namespace.
type Dependency struct {
	Of   carillon.Key
	Name string
}

// Waiting returns the key of the job that waits.
func (e Dependency) Waiting() carillon.Key {
	return carillon.Key{Namespace: e.Of.Namespace, Name: e.Name}
}

func (e Dependency) dependencyKey() string {
	return strings.Join([]string{e.Of.Namespace, e.Of.Name, e.Name}, "\x00")
}
func (e Dependency) outboxKey() string {
	return strings.Join([]string{e.Of.Namespace, e.Name, e.Of.Name}, "\x00")
}

// Notice tells a job that waits of a success.
type Notice struct {
	Dependency
	By identity.Run
	// Stamp orders the notices of a dependency over all owners, so that one that was overtaken by a newer one
	// changes nothing. The upper half is the owner's epoch; the lower half counts that owner's notices.
	Stamp uint64
}

// Answer is the outcome of a notice.
type Answer uint8

// The answers.
const (
	Unreached Answer = iota // it could not be delivered; try again
	Taken                   // the job knows of the success, durably
	Nobody                  // there is no such job, or it does not wait for the other one
)

// dependency is a Dependency in memory.
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
	again  int64  // not to be sent before
	flying bool   // sent and not answered; the next one waits, so that successes arrive in order
	gone   bool
}

// dependencies are the dependencies on the partition's jobs, and the notices to send.
type dependencies struct {
	of      map[carillon.Key][]*dependency // in the order of registration
	n       int
	checks  []checkup // in the order of their times
	outbox  map[Dependency]*notice
	notices []*notice // the same as outbox, in order
	stamps  uint32    // the newest stamp given to a notice
}

type checkup struct {
	dependency *dependency
	at         int64
}

// Register notes that a job is going to wait for another one, before it is put. exists says whether the other
// job exists now.
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

// loadDependencies takes, at takeover, the metadata records of kind store.KindDependency. The puts of their
// jobs may still be on their way, so they count as registered now.
func (m *Machine) loadDependencies(records []store.MetaRecord, now int64) {
	for _, r := range records {
		if p := strings.Split(r.Key, "\x00"); len(p) == 3 {
			m.dependencies.add(&dependency{Dependency: Dependency{Of: carillon.Key{Namespace: p[0], Name: p[1]}, Name: p[2]}, registered: now})
		}
	}
}

// loadNotices takes, at takeover, the metadata records of kind store.KindNotice. The notices are sent again.
func (m *Machine) loadNotices(records []store.MetaRecord) {
	for _, r := range records {
		by, err := identity.ParseRunBytes(r.Value)
		if p := strings.Split(r.Key, "\x00"); len(p) == 3 && err == nil {
			m.post(Notice{Dependency: Dependency{Of: carillon.Key{Namespace: p[0], Name: p[2]}, Name: p[1]}, By: by})
		}
	}
}

// post has a notice sent once the batch being filled is durable, in place of an older one of the same
// dependency.
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

// tellOthers posts the success of e's run to the jobs that wait for it. The notices become durable together
// with the success.
func (m *Machine) tellOthers(e *entry, by identity.Run) {
	for _, d := range m.dependencies.of[e.ref.Key] {
		l := Notice{Dependency: d.Dependency, By: by}
		m.post(l)
		m.dependencies.outbox[d.Dependency].seq = m.out.seq
		m.Write(store.MetaRecord{Kind: store.KindNotice, Key: d.outboxKey(), Value: by.AppendBinary(nil)})
	}
}

// Notices returns at most n notices to send now. Each must be followed by Answered.
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

// Answered processes the answer to a notice.
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

// Checkups returns a few dependencies whose jobs must be asked whether they still wait. If one does not, call
// Forget.
func (m *Machine) Checkups(now int64) []Dependency {
	s := &m.dependencies
	most := max(16, s.n/600) // each comes up at least every ten minutes if Checkups is called every second
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

// Forget removes a dependency whose job does not wait, with its notice, and reports whether it did. It does
// not while the put of the job may be on its way.
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

// Release tells a job of a success that it may wait for. A repeated notice changes nothing. Nor does one that
// is older than the newest known: it comes from an owner whose term is over.
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
		// Write it again: if the store was reset to an older state it refuses, and the job may not know.
		m.touch(e)
		return Taken
	}
	m.touch(e)
	waits := slices.Clone(e.state.Waits) // a batch may hold the old slice
	waits[i].By, waits[i].Open, waits[i].Told = l.By, true, max(l.Stamp, waits[i].Told)
	e.state.Waits = waits
	if allOpen(&e.state) {
		unwait(&e.state)
	}
	m.rearm(e)
	return Taken
}

// ReleaseIf is Release for a success that was found in the history, for a job that was found waiting. It
// changes nothing unless the job still waits and knows of no other success than it did then.
func (m *Machine) ReleaseIf(l Notice, was identity.Run) (released bool) {
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
