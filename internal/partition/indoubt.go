package partition

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store"
)

// An attempt is written some time after it has been handed out (docs/decisions/0019). An owner that ends without order may therefore
// have handed out attempts of which the store knows nothing: they are in doubt. Its successors make them again, under the same run
// id, attempt and token, and neither skip nor coalesce them; see docs/decisions/0033.

// TermsKey is the key of the metadata record (store.KindTerms) that says which terms of the partition may have left attempts in doubt.
const TermsKey = "terms"

// mostTerms bounds the list of terms, to 12 KiB. What older ones may have left has long been dealt with, or has waited, in a backlog
// or for a consumer, for as many crashes.
const mostTerms = 512

// EndedTerm is a term that ended without order.
type EndedTerm struct {
	Term  store.Term
	Until int64 // UTC ns: what it handed out was due by then
}

// Terms are the terms of a partition that have ended without order, the oldest first, and those of which that is not known yet.
type Terms struct {
	Ended []EndedTerm
	Open  []store.Term // begun, and not ended in order: the last one may be in force
}

// termBytes is the length of one term in the record; Until is 0 if it is open.
const termBytes = 24

// ParseTerms reads the value of the record; none is no terms.
func ParseTerms(b []byte) (t Terms, err error) {
	if len(b)%termBytes != 0 {
		return t, fmt.Errorf("%w: the list of terms has %d bytes", store.ErrDamaged, len(b))
	}
	for ; len(b) > 0; b = b[termBytes:] {
		term := store.Term{Epoch: binary.BigEndian.Uint64(b), Nonce: binary.BigEndian.Uint64(b[8:])}
		if until := int64(binary.BigEndian.Uint64(b[16:])); until != 0 {
			t.Ended = append(t.Ended, EndedTerm{term, until})
		} else {
			t.Open = append(t.Open, term)
		}
	}
	return t, nil
}

// End says until when the open terms may have handed out attempts.
func (t *Terms) End(until func(store.Term) int64) {
	for _, term := range t.Open {
		t.Ended = append(t.Ended, EndedTerm{term, max(1, until(term))})
	}
	t.Open = nil
	t.Ended = t.Ended[max(0, len(t.Ended)-mostTerms):]
}

// Record is the list as it is stored.
func (t *Terms) Record() store.MetaRecord {
	var b []byte
	add := func(term store.Term, until int64) {
		b = binary.BigEndian.AppendUint64(b, term.Epoch)
		b = binary.BigEndian.AppendUint64(b, term.Nonce)
		b = binary.BigEndian.AppendUint64(b, uint64(until))
	}
	for _, e := range t.Ended {
		add(e.Term, e.Until)
	}
	for _, term := range t.Open {
		add(term, 0)
	}
	return store.MetaRecord{Kind: store.KindTerms, Key: TermsKey, Value: b}
}

// doubts are the terms that may have left attempts in doubt.
type doubts struct {
	ended []EndedTerm // the oldest first
	until int64       // the latest of their ends
}

func newDoubts(ended []EndedTerm) doubts {
	d := doubts{ended: slices.Clone(ended)}
	for _, e := range ended {
		d.until = max(d.until, e.Until)
	}
	return d
}

// of is the first term that may have handed out what was due at an instant, of a record of which nothing is in doubt up to an epoch.
// Terms after it that handed it out too did so under its grant, as this one will.
func (d *doubts) of(settled uint64, due int64) (store.Term, bool) {
	if due > d.until {
		return store.Term{}, false
	}
	for _, e := range d.ended {
		if e.Term.Epoch >= settled && due <= e.Until {
			return e.Term, true
		}
	}
	return store.Term{}, false
}

// EndInOrder records that nothing is in doubt of what this term has handed out: all of it is in the batches up to this one, and it
// hands out nothing more.
func (m *Machine) EndInOrder() {
	m.Write((&Terms{Ended: m.doubts.ended}).Record())
}

// Unread reports whether records have not been read yet that may hold what is in doubt.
func (m *Machine) Unread() bool {
	if len(m.doubts.ended) == 0 {
		return false
	}
	for class := range m.window.frontier {
		if m.window.frontier[class].at.Due <= m.doubts.until {
			return true
		}
	}
	return false
}

// examine sees to what is in doubt of a record that has come into memory: its next scheduled time begins at once, before anything
// that is asked of the job, or the misfire rule, could pass over it. What can be said only with the spec, or with the job of a
// pending run, waits for that: until then the record stays unsettled, in the store too.
func (m *Machine) examine(e *entry, now int64) {
	s := &e.state
	if s.Settled >= m.cfg.Term.Epoch || e.gone {
		return
	}
	var settled bool
	switch {
	case s.Run.Live:
		settled = m.examineRun(e)
	default:
		settled = m.examineNext(e, now)
	}
	if settled {
		s.Settled = m.cfg.Term.Epoch
	}
}

// examineRun sees to an unfinished run: its next attempt may have been made already.
func (m *Machine) examineRun(e *entry) (settled bool) {
	r := &e.state.Run
	if e.place == running || !r.Doubt.Term.IsZero() {
		return true // the attempt is known, or the doubt is
	}
	term, doubtful := m.doubts.of(e.state.Settled, r.Due)
	if !doubtful {
		return true
	}
	if e.owner() == nil {
		return false
	}
	m.inDoubt(e, term)
	return true
}

// examineNext sees to the next scheduled time: its first attempt may have been made. No later one can have been: a job's next time
// is begun when it is durable how the run before it ended, or went on beside it.
func (m *Machine) examineNext(e *entry, now int64) (settled bool) {
	s := &e.state
	if s.Next == 0 || s.Paused || !allOpen(s) {
		return true
	}
	if _, doubtful := m.doubts.of(s.Settled, s.Next); !doubtful {
		return true // it is due then at the earliest
	}
	if e.place != idle && e.place != blocked || m.specMissing(e) || m.unscheduled(e) {
		return false
	}
	due := m.nextDue(e)
	term, doubtful := m.doubts.of(s.Settled, due)
	switch {
	case !doubtful:
		return true
	case due > now: // by this clock it has yet to come: another was ahead, or this one has been set back
		return false
	}
	m.open(e, s.Next, now)
	m.inDoubt(e, term)
	if e.place == idle { // otherwise it goes on when it is unblocked
		m.enqueue(e, now)
	}
	return true
}

// inDoubt notes that the next attempt of e's run may have been handed out under a term.
func (m *Machine) inDoubt(e *entry, term store.Term) {
	r := &e.state.Run
	r.Doubt = store.Grant{Term: term, Generation: m.generation(e)}
	r.InDoubt++
}

// doubtful reports whether the next attempt of e's run may have been handed out before this term, and has not been in it.
func (e *entry) doubtful() bool {
	r := &e.state.Run
	return r.Live && e.place != running && !r.Doubt.Term.IsZero()
}

// grantOf is the grant of e's next attempt: its own, or that of the term which may have handed it out before. Whoever had an attempt
// of Dapr's has gone with that term.
func (m *Machine) grantOf(e *entry) store.Grant {
	if d := e.state.Run.Doubt; !d.Term.IsZero() && !e.isDapr() {
		return d
	}
	return store.Grant{Term: m.cfg.Term, Generation: m.generation(e)}
}

// concede counts an attempt in doubt as made, because the run ends or goes on otherwise before it is made again.
func (m *Machine) concede(e *entry) {
	if e.doubtful() {
		r := &e.state.Run
		r.Attempt++
		r.Grant, r.Doubt = r.Doubt, store.Grant{}
		m.countGrant(e)
	}
}

// HandedOut reports whether this term has handed out the attempt in force that a token names. An attempt in doubt has the token of the
// term before: what the owner of then did with it is another matter.
func (m *Machine) HandedOut(tok Token) bool {
	e := m.live[tok.Run]
	return e != nil && e.place == running && e.since != 0 && m.names(e, tok)
}

// Awaits reports whether a token may be that of an attempt in doubt whose record has not been read yet, or whose time has yet to come
// by this node's clock.
func (m *Machine) Awaits(tok Token, now int64) bool {
	return (m.Unread() || now <= m.doubts.until) && now-m.cfg.Since < int64(awaitUnread) &&
		slices.ContainsFunc(m.doubts.ended, func(t EndedTerm) bool { return t.Term == tok.Grant.Term })
}

// awaitUnread is for how long what consumers say of attempts waits until the records of them are known.
const awaitUnread = time.Minute

// acknowledge takes an attempt in doubt for the one in force, as a consumer has proved with its token that it has it.
func (m *Machine) acknowledge(e *entry, tok Token, now int64) {
	r := &e.state.Run
	if !e.doubtful() || e.isDapr() || tok.Grant != r.Doubt || tok.Attempt != r.Attempt+1 {
		return
	}
	if e.place == ready || e.place == aside {
		m.dequeue(e)
	}
	r.Attempt++
	r.Grant = r.Doubt
	r.Percent, r.Message, r.Said, r.Kept = 0, "", 0, false
	if r.Started == 0 {
		r.Started = now
	}
	m.countGrant(e)
	e.queue = new(QueueOf(e.ref.Namespace, m.jobOf(e).Target))
	m.startClocks(e, now)
	e.state.Phase, e.state.Queue = carillon.PhaseRunning, ""
	e.place, e.durable, e.first, e.since = running, false, false, m.out.seq
	e.made = false
	m.grants++
	m.rearm(e)
}
