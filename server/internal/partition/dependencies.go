package partition

import (
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
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
//	Notices, once that is durable ────────────────► Release: opens the wait (waits.go)
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

// Dependencies are the dependencies on the partition's jobs, and the notices to send.
type Dependencies struct {
	out     *builder
	epoch   uint64
	of      map[carillon.Key][]*dependency // in the order of registration
	n       int
	checks  []checkup // in the order of their times
	outbox  map[message.Dependency]*notice
	notices []*notice // the same as outbox, in order
	stamps  uint64    // the number of the newest notice
}

// dependency is a Dependency in memory.
type dependency struct {
	message.Dependency
	registered int64
	seq        uint64 // the batch that holds its record
	gone       bool
}

// notice is a store.KindNotice in memory.
type notice struct {
	message.Notice
	seq    uint64 // the batch that holds it
	again  int64  // not to be sent before
	flying bool   // sent and not answered; the next one waits, so that successes arrive in order
	gone   bool
}

type checkup struct {
	dependency *dependency
	at         int64
}

// dependencyKey and noticeKey are the keys of the metadata records.
func dependencyKey(e message.Dependency) string {
	return strings.Join([]string{e.Of.Namespace, e.Of.Name, e.Name}, "\x00")
}
func noticeKey(e message.Dependency) string {
	return strings.Join([]string{e.Of.Namespace, e.Name, e.Of.Name}, "\x00")
}

func newDependencies(out *builder, epoch uint64) *Dependencies {
	return &Dependencies{out: out, epoch: epoch, of: map[carillon.Key][]*dependency{},
		outbox: map[message.Dependency]*notice{}}
}

// load takes, at takeover, the metadata records of kinds store.KindDependency and store.KindNotice. The puts
// of the jobs that wait may still be on their way, so they count as registered now. The notices are sent
// again.
func (s *Dependencies) load(dependencies, notices []store.MetaRecord, now int64) {
	for _, r := range dependencies {
		if p := strings.Split(r.Key, "\x00"); len(p) == 3 {
			s.add(&dependency{Dependency: message.Dependency{Of: carillon.Key{Namespace: p[0], Name: p[1]},
				Name: p[2]}, registered: now})
		}
	}
	for _, r := range notices {
		by, err := store.DecodeRunID(r.Value)
		if p := strings.Split(r.Key, "\x00"); len(p) == 3 && err == nil {
			s.post(message.Notice{Dependency: message.Dependency{Of: carillon.Key{Namespace: p[0], Name: p[2]},
				Name: p[1]}, By: by})
		}
	}
}

// Register notes that a job is going to wait for another one, before it is put.
func (s *Dependencies) Register(now int64, want message.Dependency) error {
	if e := s.find(want); e != nil {
		e.registered = now
		s.out.await(e.seq)
		return nil
	}
	switch {
	case s.n >= MaxDependencies:
		return carillon.Errorf(carillon.ResourceExhausted, "depends_on",
			"%d jobs wait for jobs of this partition, which is the most", MaxDependencies)
	case len(s.of[want.Of]) >= MaxDependents:
		return carillon.Errorf(carillon.ResourceExhausted, "depends_on",
			"%d jobs wait for job %.64q, which is the most", MaxDependents, want.Of.Name)
	}
	s.out.write(DependencyRecord(want.Of, want.Name))
	s.add(&dependency{Dependency: want, registered: now, seq: s.out.seq})
	return nil
}

func (s *Dependencies) find(want message.Dependency) *dependency {
	for _, e := range s.of[want.Of] {
		if e.Name == want.Name {
			return e
		}
	}
	return nil
}

func (s *Dependencies) add(e *dependency) {
	s.of[e.Of] = append(s.of[e.Of], e)
	s.n++
	s.checks = append(s.checks, checkup{e, e.registered + int64(dependencyCheck)})
}

// succeeded posts the success of a job's run to the jobs that wait for it. The notices become durable
// together with the success.
func (s *Dependencies) succeeded(of carillon.Key, by store.RunID) {
	for _, d := range s.of[of] {
		s.post(message.Notice{Dependency: d.Dependency, By: by}).seq = s.out.seq
		s.out.write(store.MetaRecord{Kind: store.KindNotice, Key: noticeKey(d.Dependency),
			Value: by.AppendBinary(nil)})
	}
}

// post has a notice sent, in place of an older one of the same dependency.
func (s *Dependencies) post(n message.Notice) *notice {
	l := s.outbox[n.Dependency]
	if l == nil {
		l = &notice{Notice: n}
		s.outbox[n.Dependency] = l
		s.notices = append(s.notices, l)
	}
	s.stamps++
	l.By, l.again, l.Stamp = n.By, 0, message.Stamp{Epoch: s.epoch, N: s.stamps}
	return l
}

// Notices returns at most n notices to send now. Each must be followed by Answered.
func (s *Dependencies) Notices(now int64, n int) []message.Notice {
	var out []message.Notice
	s.notices = slices.DeleteFunc(s.notices, func(l *notice) bool { return l.gone })
	for _, l := range s.notices {
		if len(out) == n {
			break
		}
		if !l.flying && l.seq <= s.out.durable && l.again <= now {
			l.flying = true
			out = append(out, l.Notice)
		}
	}
	return out
}

// Answered processes the answer to a notice.
func (s *Dependencies) Answered(now int64, sent message.Notice, a message.Answer) {
	l := s.outbox[sent.Dependency]
	if l == nil {
		return
	}
	l.flying = false
	switch {
	case a == message.Taken && l.By == sent.By:
		s.discard(l)
	case a == message.Nobody && s.Forget(now, sent.Dependency):
	case a != message.Taken:
		l.again = now + int64(noticeRetry)
	}
}

// discard removes a notice.
func (s *Dependencies) discard(l *notice) {
	delete(s.outbox, l.Dependency)
	l.gone = true
	s.out.write(store.MetaRecord{Kind: store.KindNotice, Key: noticeKey(l.Dependency)})
}

// Checkups returns a few dependencies whose jobs must be asked whether they still wait. If one does not, call
// Forget.
func (s *Dependencies) Checkups(now int64) []message.Dependency {
	most := max(16, s.n/600) // each comes up at least every ten minutes if Checkups is called every second
	var out []message.Dependency
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
func (s *Dependencies) Forget(now int64, old message.Dependency) bool {
	if e := s.find(old); e != nil {
		if now < e.registered+int64(dependencyGrace) {
			return false
		}
		s.remove(e)
		s.out.write(store.MetaRecord{Kind: store.KindDependency, Key: dependencyKey(old)})
	}
	if l := s.outbox[old]; l != nil {
		s.discard(l)
	}
	return true
}

func (s *Dependencies) remove(e *dependency) {
	e.gone = true
	s.n--
	rest := slices.DeleteFunc(s.of[e.Of], func(o *dependency) bool { return o == e })
	if s.of[e.Of] = rest; len(rest) == 0 {
		delete(s.of, e.Of)
	}
}
