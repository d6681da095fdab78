package partition

import (
	"time"

	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

// Attempts are the attempts in force, and what is on its way to their consumers.
type Attempts struct {
	cfg      *Config
	out      *builder
	contents *contents
	agenda   *agenda
	records  *Records
	due      *dueRuns
	signer   *message.Signer // signs and parses tokens

	grants            int                    // attempts in force
	awaiting          awaiting               // of them, those that a consumer at a broker completes
	unread            map[store.Ref][]*entry // by the record that has their spec; see await
	keepAt            int64                  // when the age budget next has room; see mayKeep
	pendingDeliveries []pendingDelivery      // not handed out yet, in the order of their batches
	pendingSoFar      uint64                 // pending deliveries so far
	cancels           []delivery.Cancel      // consumers to stop
	duplicates        []duplicate            // the same, in the order of their batches; see duplicates.go
}

func newAttempts(cfg *Config, contents *contents, agenda *agenda, records *Records, due *dueRuns) *Attempts {
	return &Attempts{
		cfg: cfg, out: due.out, contents: contents, agenda: agenda, records: records, due: due,
		signer: message.NewSigner(cfg.MACKey), awaiting: newAwaiting(),
		unread: map[store.Ref][]*entry{},
	}
}

// begin puts e among the attempts in force.
func (a *Attempts) begin(e *entry, from origin) {
	e.move(running)
	e.attempt.origin = from
	a.grants++
	if from != takenOver {
		e.attempt.since = a.out.seq
	}
}

// takeOver continues an attempt that an earlier owner handed out. Heartbeats may have extended its lease
// since it was stored, so it gets at least one heartbeat interval.
func (a *Attempts) takeOver(e *entry, now int64) {
	a.begin(e, takenOver)
	e.attempt.known, e.attempt.current, e.attempt.told, e.attempt.granted = true, true, true, now
	a.due.permits.adopt(e)
	if e.ref.Seq != 0 && e.parent == nil {
		a.records.needs[e.ref.Job()] = struct{}{}
	}
	if e.specOf() == nil {
		a.await(e)
	}
	a.guess(e)
	a.agenda.rearm(e)
}

// await asks for the spec of an attempt that was taken over. The window does not read long ones, and without
// it neither the lease nor the queue is known; see learn.
func (a *Attempts) await(e *entry) {
	ref := e.ref
	if !e.own() {
		ref = e.ref.Job()
	}
	a.records.needs[ref] = struct{}{}
	a.unread[ref] = append(a.unread[ref], e)
}

// learn goes on with the attempts whose spec await has asked for, when a record has been read.
func (a *Attempts) learn(ref store.Ref) {
	for _, e := range a.unread[ref] {
		if e.place != running {
			continue // it has ended meanwhile
		}
		if e.attempt.renewal == 0 {
			a.guess(e)
			a.agenda.rearm(e)
		}
		a.contents.lighten(e)
	}
	delete(a.unread, ref)
}

// TakeoverGrace is added to the heartbeat interval for leases found at takeover.
const TakeoverGrace = 2 * time.Second

// guess sets the lease of an attempt that was taken over as if its worker had just missed its first
// heartbeat.
func (a *Attempts) guess(e *entry) {
	beat := 10 * time.Second // the longest interval; the job's own may not be in memory
	if e.specOf() != nil {
		e.attempt.renewal = e.job().LeaseOrDefault()
		beat = heartbeatInterval(e.attempt.renewal)
	}
	if q := e.targetQueue(); q != (delivery.Queue{}) {
		a.awaiting.uncount(e)
		e.queue = &q
		a.awaiting.count(e)
		t := traitsOf(q.Kind)
		e.attempt.awaited = !t.heartbeats && !t.endsWithStream
	}
	if e.attempt.lease = max(e.state.Run.Lease,
		e.attempt.granted+int64(beat+TakeoverGrace)); e.traits().endsWithStream {
		e.attempt.lease = keptUntil(e.state.Run.Lease, e.attempt.granted)
	}
}

// extend renews the lease of the attempt in force.
func (a *Attempts) extend(e *entry, now int64) {
	e.attempt.putOff = 0
	if e.state.Run.Kept { // nothing to write: any later owner that loads it waits as long
		e.attempt.lease = max(e.attempt.lease, now+int64(keptFor))
		a.agenda.rearm(e)
		return
	}
	if e.attempt.renewal == 0 {
		e.attempt.renewal = e.job().LeaseOrDefault()
	}
	e.attempt.lease = max(e.attempt.lease, now+int64(e.attempt.renewal))
	if e.attempt.current && e.state.Run.Lease-now <= int64(heartbeatInterval(e.attempt.renewal)) {
		a.keep(e)
	}
	a.agenda.rearm(e)
}

// heartbeatInterval returns how often a worker sends heartbeats: four times a lease, at most 10 s apart.
func heartbeatInterval(lease time.Duration) time.Duration { return min(lease/4, 10*time.Second) }

// keep makes the attempt in force durable as it stands.
func (a *Attempts) keep(e *entry) {
	e.attempt.known, e.attempt.current = true, true
	a.tellLate(e)
	if e.state.Run.Lease = e.attempt.lease; e.unacknowledged() {
		e.state.Run.Lease = e.attempt.granted
	}
	a.due.touch(e)
}

// mayKeep reports whether e's attempt may be made durable for its age, and if so counts it. When so much is
// due that results take longer than grantAfter, writing every attempt would double the store's work and make
// them take longer still. So there is a budget of GrantsKept attempts per grantAfter, except for the really
// old ones.
func (a *Attempts) mayKeep(e *entry, now int64) bool {
	if now-e.attempt.granted >= keepLatest*int64(grantAfter) {
		return true
	}
	after, each := int64(grantAfter), int64(grantAfter)/int64(a.cfg.GrantsKept)
	if a.keepAt > now {
		return false
	}
	a.keepAt = max(a.keepAt, now-after) + each
	return true
}

// grantAfter is the age at which an attempt is made durable, as far as the budget goes; keepLatest times that
// is the age at which it is whatever the budget.
const (
	grantAfter = time.Second
	keepLatest = 10
)

// outdate is called when the clock was set back. The age of attempts cannot be told by it any more, so each
// attempt in force that is not durable counts as old enough to be, and the age budget as unspent. A step back
// that is smaller than the time since the last Tick goes unnoticed. Attempts are then made durable later, by
// no more than that.
func (a *Attempts) outdate(now int64) {
	since := now - int64(grantAfter)
	a.keepAt = min(a.keepAt, since)
	for _, e := range a.records.live {
		if e.place == running && !e.attempt.current {
			e.attempt.granted = min(e.attempt.granted, since)
			a.agenda.set(e, now)
		}
	}
}

// end takes e out of the attempts in force. If a report ended the attempt, its grant is kept, so that the
// same report sent again gets the same answer. Otherwise only the grant's generation is kept, which a redrive
// must exceed.
func (a *Attempts) end(e *entry, reported bool) {
	a.drop(e)
	if !reported {
		e.state.Run.Grant.Term = store.Term{}
	}
}

// drop drops everything an attempt in force holds: its count, its pending delivery, its permits, and its
// doubt.
func (a *Attempts) drop(e *entry) {
	a.tellLate(e)
	a.awaiting.uncount(e)
	a.due.permits.release(e)
	a.grants--
	e.state.Run.Doubt = store.Grant{}
	e.attempt = attempt{}
	e.move(idle)
}

// revoke ends the attempt in force, if there is one. It reports whether a consumer had it; that consumer is
// told to stop. An attempt that has not been handed out does not count.
func (a *Attempts) revoke(e *entry, now int64) (interrupted bool) {
	switch {
	case e.place != running:
		return false
	case e.attempt.pending != 0:
		a.withdraw(e)
		return false
	}
	a.endTrace(e, now, delivery.AttemptCancelled, "", nil)
	a.stop(e)
	return true
}

// withdraw takes back an attempt, which then does not count.
func (a *Attempts) withdraw(e *entry) {
	doubt, late := e.state.Run.Doubt, e.countedLate() // consumers of the attempt in doubt may still have it
	e.attempt.told = true
	a.end(e, false)
	e.state.Run.Doubt = doubt
	r := &e.state.Run
	e.uncountAttempt(late)
	if r.Attempt--; r.Attempt == 0 {
		r.Started = 0
	}
}

// withdrawSent takes back an attempt that may have left: its stream has ended. It does not count, but its run
// is not one that no consumer has had, which could still be recorded as skipped.
func (a *Attempts) withdrawSent(e *entry) {
	sent := e.state.Run.Grant
	a.withdraw(e)
	if d := &e.state.Run.Doubt; d.Term.IsZero() {
		*d = sent
	}
}

// named returns the record whose attempt in force the token names, nil if there is none.
func (a *Attempts) named(tok message.Token) *entry {
	if e := a.records.live[tok.Run]; e != nil && e.place == running && e.names(tok) {
		return e
	}
	return nil
}

// InForce reports whether the token is that of an attempt in force.
func (a *Attempts) InForce(tok message.Token) bool { return a.named(tok) != nil }

// HandedOut reports whether a token names the attempt in force and this term handed it out. An attempt in
// doubt has the token of an earlier term; what the owner of that term did with it does not count here.
func (a *Attempts) HandedOut(tok message.Token) bool {
	e := a.named(tok)
	return e != nil && e.attempt.origin != takenOver
}

// Made reports whether this term made the attempt in force, and the attempt has this token. An attempt in
// doubt that is made again keeps its token, so a report about it from an earlier term does not apply to it
// any more.
func (a *Attempts) Made(tok message.Token) bool {
	e := a.named(tok)
	return e != nil && e.attempt.origin == handedOut
}

// SharedInForce reports whether a token names the attempt in force, and the attempt may have been handed out
// more than once under it.
func (a *Attempts) SharedInForce(tok message.Token) bool {
	e := a.named(tok)
	return e != nil && e.shared()
}

// TakesHeartbeat reports whether everything that a heartbeat of the run needs is in memory.
func (a *Attempts) TakesHeartbeat(id store.RunID) bool {
	e := a.records.live[id]
	switch {
	case e == nil:
		return false
	case e.place == running:
		return e.attempt.renewal != 0
	}
	return !e.doubtful()
}
