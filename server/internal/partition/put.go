package partition

import (
	"bytes"
	"cmp"
	"crypto/sha256"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// putAt returns the instant as of which a put is planned.
func putAt(r *message.PutRequest, now int64) int64 { return cmp.Or(r.At, now) }

// specOf returns the spec of the job that is put.
func specOf(r *message.PutRequest) []byte {
	if r.Spec == nil {
		r.Spec = EncodeSpec(r.Job)
	}
	return r.Spec
}

// Put creates or replaces a job. It changes the record in memory and has it written with the batch that is
// being filled (dueRuns.touch); the answer waits for that batch ([Machine.After]):
//
//	the options forbid it        checkOptions   nothing changes
//	the quotas give no room      fits           nothing changes
//	there is no such job         create         a new uid, generation 1; the times count from now
//	with PutOptions.Replace      replaceJob     as if the job had been deleted first
//	otherwise                    edit           the next generation
//	  the content is the same                   at most the job is paused or resumed
//	  its times change           retime.go      they are counted again, or the next one is found again
//	  what its runs do changes   supersede.go   unfinished runs go on with the new content
func (js *Jobs) Put(now int64, req message.PutRequest) (carillon.PutResult, error) {
	e := js.records.find(req.Job.Key())
	if err := checkOptions(e, &req); err != nil {
		return carillon.PutResult{}, err
	}
	if err := js.fits(now, e, req.Job); err != nil {
		return carillon.PutResult{}, err
	}
	return js.putOver(now, e, &req)
}

// putOver is Put over e, nil if there is no such job, whatever options and quotas say.
func (js *Jobs) putOver(now int64, e *entry, req *message.PutRequest) (carillon.PutResult, error) {
	switch {
	case e == nil:
		return js.create(now, req)
	case req.Options.Replace:
		return js.replaceJob(now, e, req)
	}
	return js.edit(now, e, req, replans(e, e.job(), req.Job))
}

// checkOptions returns an error if the options of a put do not allow it to replace e, or to create a job if e
// is nil.
func checkOptions(e *entry, req *message.PutRequest) error {
	switch o := req.Options; {
	case o.IfAbsent && e != nil:
		return carillon.Errorf(carillon.AlreadyExists, "name", "job %.64q exists already", req.Job.Name)
	case o.IfGeneration != 0 && e == nil:
		return carillon.Errorf(carillon.FailedPrecondition, "if_generation",
			"job %.64q does not exist", req.Job.Name)
	case o.IfGeneration != 0 && e.state.Generation != o.IfGeneration:
		return otherGeneration(e)
	}
	return nil
}

// create stores a new job.
func (js *Jobs) create(now int64, req *message.PutRequest) (carillon.PutResult, error) {
	e, err := js.draft(now, req)
	if err != nil {
		return carillon.PutResult{}, err
	}
	if old := js.records.entries[e.ref]; old != nil && old.seq == js.out.seq {
		js.seal() // the delete of its namesake must come first
	}
	js.records.entries[e.ref] = e
	js.usage.moved(e.ref.Key, none, e.state.Payload)
	return js.store(now, e, req.Job), nil
}

// draft returns an entry for a new job that is not in the machine yet.
func (js *Jobs) draft(now int64, req *message.PutRequest) (*entry, error) {
	j := req.Job
	ref, at := store.Ref{Key: j.Key()}, putAt(req, now)
	e := &entry{ref: ref, timer: -1, slot: -1, fresh: true, state: store.State{
		UID: store.NewUID(ref.Key, req.Random), Generation: 1, Created: at, Updated: at,
		Priority: j.Priority.Rank(), Jitter: int64(j.Jitter), Paused: j.Paused, Waits: newWaits(at,
			j.DependsOn, nil, req.Waits, true),
		Settled: js.cfg.Term.Epoch, Trace: string(req.Trace), Payload: message.Payload(j),
	}}
	js.contents.set(e, specOf(req))
	e.decoded = j // until it is created: saves decoding, but the job belongs to the caller
	if err := js.contents.timetableOf(e).first(at); err != nil {
		js.contents.bytes -= len(e.spec)
		return nil, err
	}
	return e, nil
}

// store has a new job written and its timer set.
func (js *Jobs) store(now int64, e *entry, j *carillon.Job) carillon.PutResult {
	e.decoded = j
	js.due.touch(e)
	js.out.events.tellJob(now, e, carillon.EventJobCreated)
	js.agenda.rearm(e)
	put := carillon.PutResult{Job: js.records.view(e), Created: true, Changed: true, Warnings: warnings(j)}
	e.decoded = nil
	return put
}

// replaceJob puts a job in place of e as if e had been deleted first, in one batch. The record stays, and
// everything in it becomes the new job's. Only the number of the last pending run and the count of history
// records go on, because both belong to the name.
func (js *Jobs) replaceJob(now int64, e *entry, req *message.PutRequest) (carillon.PutResult, error) {
	if !e.complete() {
		return carillon.PutResult{}, carillon.Errorf(carillon.FailedPrecondition, "name",
			"job %q has unfinished runs that are older than the %d triggers that are looked through for them: delete it first", e.ref.Name, SearchAll)
	}
	d, err := js.draft(now, req)
	if err != nil {
		return carillon.PutResult{}, err
	}
	js.cancelRuns(e, now, ReasonReplaced)
	js.window.unlist(e) // while the old state still says where it is filed
	d.state.Triggers, d.state.Kept = e.state.Triggers, e.state.Kept
	js.contents.bytes -= len(d.spec) // draft counted the spec, and contents.set counts it again
	js.contents.set(e, d.spec)
	js.usage.moved(e.ref.Key, e.state.Payload, d.state.Payload)
	e.state, e.fresh, e.later, e.content = d.state, true, 0, js.out.seq
	return js.store(now, e, req.Job), nil
}

// edit gives a job other content. retimed says that its times are counted again, even if nothing differs.
func (js *Jobs) edit(now int64, e *entry, req *message.PutRequest, retimed bool) (carillon.PutResult, error) {
	js.movePayload(e, &req.Job.Data)
	j, old := req.Job, e.job()
	if bytes.Equal(specOf(req), e.spec) && !retimed {
		changed := e.state.Paused != j.Paused
		js.runs.changePaused(e, j.Paused, false, now)
		return carillon.PutResult{Job: js.records.view(e), Changed: changed}, nil
	}
	before, oldSpec := e.state, e.spec
	js.contents.set(e, specOf(req))
	if retimed {
		if err := js.contents.timetableOf(e).first(putAt(req, now)); err != nil {
			js.contents.set(e, oldSpec)
			e.state = before
			return carillon.PutResult{}, err
		}
	}
	planned := e.state
	e.state = before // until the entry has left the list where it is filed by its old priority
	js.due.touch(e)
	e.state = planned
	s := &e.state
	s.Generation++
	js.usage.moved(e.ref.Key, s.Payload, message.Payload(j))
	s.Payload = message.Payload(j)
	s.Updated, s.Priority, s.Jitter, e.fresh = putAt(req, now), j.Priority.Rank(), int64(j.Jitter), true
	switch {
	case retimed:
		sameDue := !rearms(j) && old.Due == j.Due && old.Recurring() == j.Recurring()
		mayRun := func(t int64) bool { return js.records.familyOf(e).mayRun(t, j.Recurring()) }
		if js.contents.timetableOf(e).retime(now, before.Next, sameDue, mayRun) {
			js.runs.detach(e, now, false)
			js.runs.closeRun(e, now, ending{status: carillon.RunCancelled, reason: ReasonReplaced})
		}
	case retimes(old, j):
		js.contents.timetableOf(e).reread(now)
	}
	s.Waits = newWaits(putAt(req, now), j.DependsOn, s.Waits, req.Waits, retimed &&
		!j.Recurring() && !s.Run.Live)
	unwait(s)
	if supersedes(old, j) {
		js.supersede(e, now)
	}
	s.Trace = string(req.Trace) // not before the attempts that went back to the old one have ended
	js.out.events.tellJob(now, e, carillon.EventJobChanged)
	js.runs.changePaused(e, j.Paused, false, now)
	js.runs.endOrRearm(e) // it may have run as often as it is now meant to
	return carillon.PutResult{Job: js.records.view(e), Changed: true, Warnings: warnings(j)}, nil
}

// movePayload has a job keep its payload where a put has it, if that is the one that the job has: the same
// put on another day, or through a node that keeps others apart, changes nothing else. A new object may be
// there where the old one is lost.
func (js *Jobs) movePayload(e *entry, put *carillon.Data) {
	if !moved(put, &e.job().Data) {
		return
	}
	js.due.touch(e)
	j := *e.job()
	j.Data.Ref, j.Data.Bytes = put.Ref, put.Bytes
	js.contents.set(e, EncodeSpec(&j))
	e.fresh = true
}

// moved reports whether two payloads are the same one in two places: two objects, or one that is stored
// apart and one that is not.
func moved(a, b *carillon.Data) bool {
	switch {
	case a.Ref != nil && b.Ref != nil:
		return a.Ref.Same(b.Ref) && *a.Ref != *b.Ref
	case a.Ref == nil && b.Ref == nil:
		return false
	case a.Ref == nil:
		a, b = b, a
	}
	return a.Ref.Size == int64(len(b.Bytes)) && a.Ref.SHA256 == sha256.Sum256(b.Bytes)
}

// warnings returns what the author of a valid job may not expect of it, each with the field before a colon.
func warnings(j *carillon.Job) []string {
	var out []string
	if s, err := j.ParseSchedule(); err == nil && s != nil {
		for _, w := range s.Warnings() {
			out = append(out, "schedule: "+w)
		}
	}
	if w := plan.RetryWarning(j); w != "" {
		out = append(out, w)
	}
	return out
}

// EncodeSpec returns the spec as it is stored and compared. Whether the job is paused is part of the state
// instead.
func EncodeSpec(j *carillon.Job) []byte {
	if j.Paused {
		going := *j
		going.Paused = false
		j = &going
	}
	return codec.EncodeSpec(j)
}
