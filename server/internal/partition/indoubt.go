package partition

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

// An attempt is usually written only some time after it was handed out (docs/decisions/0019). An owner that
// ends without order, by a crash or by losing its lease, may have handed out attempts that the store knows
// nothing of. Those are in doubt. Its successors neither skip nor coalesce them. They make them again, with
// the same run id, attempt number and token, so whichever consumer reports first is believed, and the run
// counts once (docs/decisions/0033).
//
//	term 1 begins, hands out attempts, crashes           terms: 1 open
//	term 2 begins, and gives term 1 an end                      1 ended, 2 open
//	    a record that was due by that end comes into memory
//	        examine ──► its next attempt is in doubt: Run.Doubt = grant of term 1
//	            a report with that grant comes first  ──► acknowledge: the attempt is in force
//	            the run is handed out first           ──► grant: made again, with the same grant and token
//	            the run ends or changes before that   ──► concede: counted as made
//	term 2 leaves in order: EndInOrder                          1 ended  (2 is gone)
//
// Of each record at most one attempt can be in doubt, because whatever makes the next one possible is durable
// before it is handed out. State.Settled says up to which epoch nothing of a record is in doubt. If several
// terms may have handed out the attempt, the grant is that of the first: the later ones made it again under
// that grant.

// TermsKey is the key of the metadata record (store.KindTerms) that lists the terms which may have left
// attempts in doubt.
const TermsKey = "terms"

// mostTerms bounds the list of terms, to 12 KiB, but for those of [Origin]s. What older terms left in doubt
// has long been dealt with, or has waited, in a backlog or for a consumer, through as many crashes.
const mostTerms = 512

// EndedTerm is a term that ended without order.
type EndedTerm struct {
	Term  store.Term
	Until int64 // UTC ns; whatever it handed out was due by then
	Of    Origin
}

// Origin is a partition of a store before it moved to another number of partitions: a term of it concerns
// only the records that were in it then. The zero value is the partition that has the list.
type Origin struct{ Partition, Partitions uint32 }

// Had reports whether the job of a uid was in the partition.
func (o Origin) Had(u carillon.UID) bool {
	return o.Partitions == 0 || store.HashOf(u)%uint64(o.Partitions) == uint64(o.Partition)
}

// Terms are the terms of a partition that did not end in order, oldest first, and those that may not have
// ended yet.
type Terms struct {
	Ended []EndedTerm
	Open  []store.Term // begun and not ended in order; the last one may be in force
}

// termBytes is the length of one term in the record. Its Until is 0 if the term is open. Where Until is
// originMark there is no term, but the Origin of those that follow: 4 bytes for its number of partitions and
// 4 for its partition, in place of the nonce.
const (
	termBytes  = 24
	originMark = -1
)

// ParseTerms decodes the value of the record; an empty value has no terms.
func ParseTerms(b []byte) (t Terms, err error) {
	if len(b)%termBytes != 0 {
		return t, fmt.Errorf("%w: the list of terms has %d bytes", store.ErrDamaged, len(b))
	}
	var of Origin
	for ; len(b) > 0; b = b[termBytes:] {
		term := store.Term{Epoch: binary.BigEndian.Uint64(b), Nonce: binary.BigEndian.Uint64(b[8:])}
		switch until := int64(binary.BigEndian.Uint64(b[16:])); until {
		case originMark:
			of = Origin{Partitions: uint32(term.Nonce >> 32), Partition: uint32(term.Nonce)}
			if of.Partition > 0 && of.Partition >= of.Partitions {
				return t, fmt.Errorf("%w: the list of terms names partition %d of %d", store.ErrDamaged, of.Partition,
					of.Partitions)
			}
		case 0:
			t.Open = append(t.Open, term)
		default:
			t.Ended = append(t.Ended, EndedTerm{term, until, of})
		}
	}
	return t, nil
}

// End moves the open terms to the ended ones. until returns, in UTC ns, until when a term may have handed out
// attempts.
func (t *Terms) End(until func(store.Term) int64) {
	for _, term := range t.Open {
		t.Ended = append(t.Ended, EndedTerm{Term: term, Until: max(1, until(term))})
	}
	t.Open = nil
	tooMany := -mostTerms
	for _, e := range t.Ended {
		if e.Of == (Origin{}) {
			tooMany++
		}
	}
	t.Ended = slices.DeleteFunc(t.Ended, func(e EndedTerm) bool {
		old := tooMany > 0 && e.Of == Origin{}
		if old {
			tooMany--
		}
		return old
	})
}

// Record returns the list as it is stored.
func (t *Terms) Record() store.MetaRecord {
	var b []byte
	add := func(term store.Term, until int64) {
		b = binary.BigEndian.AppendUint64(b, term.Epoch)
		b = binary.BigEndian.AppendUint64(b, term.Nonce)
		b = binary.BigEndian.AppendUint64(b, uint64(until))
	}
	var of Origin
	from := func(now Origin) {
		if now != of {
			of = now
			add(store.Term{Nonce: uint64(of.Partitions)<<32 | uint64(of.Partition)}, originMark)
		}
	}
	for _, e := range t.Ended {
		from(e.Of)
		add(e.Term, e.Until)
	}
	for _, term := range t.Open {
		add(term, 0)
	}
	return store.MetaRecord{Kind: store.KindTerms, Key: TermsKey, Value: b}
}

// suspects holds the terms that may have left attempts in doubt.
type suspects struct {
	epoch uint64      // of the present term
	ended []EndedTerm // oldest first
	until int64       // the latest of their ends
}

func newSuspects(epoch uint64, ended []EndedTerm) *suspects {
	d := &suspects{epoch: epoch, ended: slices.Clone(ended)}
	for _, e := range ended {
		d.until = max(d.until, e.Until)
	}
	return d
}

// of returns the first term that may have handed out what was due at an instant, of a record with a uid, of
// which nothing is in doubt up to the epoch settled. Later terms that handed it out too did so under the
// first one's grant, as this term will.
func (s *suspects) of(u carillon.UID, settled uint64, due int64) (store.Term, bool) {
	if due > s.until {
		return store.Term{}, false
	}
	for _, e := range s.ended {
		if e.Suspect(u, settled, due) {
			return e.Term, true
		}
	}
	return store.Term{}, false
}

// Suspect reports whether the term may have handed out what was due at an instant, of a record with a uid, of
// which nothing is in doubt up to the epoch settled.
func (e *EndedTerm) Suspect(u carillon.UID, settled uint64, due int64) bool {
	return e.Term.Epoch >= settled && due <= e.Until && e.Of.Had(u)
}

// EndInOrder records that this term leaves nothing in doubt: everything it has handed out is in the batches
// up to this one, and it hands out nothing more.
func (a *Attempts) EndInOrder() {
	a.out.write((&Terms{Ended: a.due.suspects.ended}).Record())
}

// Unread reports whether records that may hold something in doubt have not been read yet.
func (w *Window) Unread() bool {
	return len(w.suspects.ended) > 0 && w.behind(w.suspects.until)
}

// examine decides what is in doubt of a record that has come into memory. A next scheduled time in doubt
// begins at once, before a call about the job, or the misfire rule, could skip it. What can be decided only
// with the spec, or with the job of a pending run, waits for that. Until then the record stays unsettled, in
// the store too.
func (d *dueRuns) examine(e *entry, now int64) {
	s := &e.state
	if s.Settled >= d.suspects.epoch || e.place == gone {
		return
	}
	if s.Run.Live {
		d.suspects.settleRun(e)
	} else if d.examineNext(e, now) {
		s.Settled = d.cfg.Term.Epoch
	}
}

// settleRun examines the unfinished run of e, unless that was done before.
func (s *suspects) settleRun(e *entry) {
	if e.place != gone && e.state.Settled < s.epoch && s.examineRun(e) {
		e.state.Settled = s.epoch
	}
}

// examineRun examines an unfinished run: its next attempt may have been handed out already.
func (s *suspects) examineRun(e *entry) (settled bool) {
	r := &e.state.Run
	if e.place == running || !r.Doubt.Term.IsZero() {
		return true // the attempt is known, or its doubt is
	}
	term, doubtful := s.of(e.state.UID, e.state.Settled, r.Due)
	if !doubtful {
		return true
	}
	if e.owner() == nil {
		return false
	}
	s.inDoubt(e, term)
	return true
}

// examineNext examines the next scheduled time: its first attempt may have been handed out. No later time can
// have been: a job's next time begins only when it is durable how the previous run ended, or that it goes on
// beside it. A time that calendars exclude was not handed out, unless its calendar was put within the second
// in which the attempt was not durable yet: that is taken as not made (docs/decisions/0077).
func (d *dueRuns) examineNext(e *entry, now int64) (settled bool) {
	s := &e.state
	if s.Next == 0 || s.Paused || !allOpen(s) {
		return true
	}
	if _, doubtful := d.suspects.of(s.UID, s.Settled, s.Next); !doubtful {
		return true // Next is the earliest that it can be due
	}
	if e.place != idle && e.place != blocked || d.records.specMissing(e) || d.agenda.contents.unscheduled(e) {
		return false
	}
	p := d.agenda.contents.timetableOf(e)
	due := p.due(s.Next)
	term, doubtful := d.suspects.of(s.UID, s.Settled, due)
	switch {
	case !doubtful, p.excludes(s.Next):
		return true
	case due > now: // not due yet by this clock: another clock was ahead, or this one was set back
		return false
	}
	d.open(e, s.Next, now)
	d.suspects.inDoubt(e, term)
	if e.place == idle { // otherwise it is enqueued when it is unblocked
		d.enqueue(e, now)
	}
	return true
}

// inDoubt notes that the next attempt of e's run may have been handed out under term.
func (s *suspects) inDoubt(e *entry, term store.Term) {
	r := &e.state.Run
	r.Doubt = store.Grant{Term: term, Generation: e.contentGeneration()}
	r.InDoubt++
}

// doubtful reports whether the next attempt of e's run may have been handed out by an earlier term, and not
// yet by this one.
func (e *entry) doubtful() bool {
	r := &e.state.Run
	return r.Live && e.place != running && !r.Doubt.Term.IsZero()
}

// grantOf returns the grant of e's next attempt: a new one, or that of the earlier term that may have handed
// it out. Attempts of Dapr's jobs ended with that term, so those always get a new grant.
func (a *Attempts) grantOf(e *entry) store.Grant {
	if d := e.state.Run.Doubt; !d.Term.IsZero() && !e.traits().endsWithStream {
		return d
	}
	return store.Grant{Term: a.cfg.Term, Generation: e.contentGeneration()}
}

// concede counts an attempt in doubt as made, because the run ends or changes before the attempt is made
// again.
func (e *entry) concede() {
	if e.doubtful() {
		r := &e.state.Run
		r.Attempt++
		r.Grant, r.Doubt = r.Doubt, store.Grant{}
		e.countAttempt()
	}
}

// Awaits reports whether a token may be that of an attempt in doubt whose record has not been read yet, or
// that is not due yet by this node's clock. Those of Dapr's jobs always get a new grant.
func (w *Window) Awaits(tok message.Token, now int64) bool {
	if e := w.records.live[tok.Run]; e != nil && e.traits().endsWithStream {
		return false
	}
	return (w.Unread() || now <= w.suspects.until) && now-w.cfg.Since < int64(awaitUnread) &&
		slices.ContainsFunc(w.suspects.ended, func(t EndedTerm) bool { return t.Term == tok.Grant.Term })
}

// awaitUnread is how long reports of attempts wait for their records to be read.
const awaitUnread = time.Minute

// acknowledge takes an attempt in doubt as the one in force, because a consumer has proved by its token that
// it has it.
func (a *Attempts) acknowledge(e *entry, tok message.Token, now int64) {
	r := &e.state.Run
	if !e.doubtful() || e.traits().endsWithStream || tok.Grant != r.Doubt || tok.Attempt != r.Attempt+1 {
		return
	}
	if e.queued() {
		a.due.dequeue(e)
	}
	e.queue = new(delivery.QueueOf(e.ref.Namespace, e.job().Target))
	a.enter(e, acknowledged, now)
	a.awaiting.count(e)
	a.agenda.rearm(e)
}
