package partition

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/identity"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/store"
	"github.com/carillonhq/carillon/store/codec"
)

// PutRequest is a put. The job has been validated, and must not be changed afterwards.
type PutRequest struct {
	Job     *carillon.Job
	Options carillon.PutOptions
	Random  [8]byte // random part of a new job's uid

	At    int64        // when it was put; relative times count from then. 0: now
	Spec  []byte       // what EncodeSpec returns for the job, if the caller has it
	Waits []store.Wait // waits for names that are new in the job's DependsOn
}

// at returns the instant as of which the put is planned.
func (r *PutRequest) at(now int64) int64 { return cmp.Or(r.At, now) }

// encoded returns the spec of the job.
func (r *PutRequest) encoded() []byte {
	if r.Spec == nil {
		r.Spec = EncodeSpec(r.Job)
	}
	return r.Spec
}

// find returns the job, nil if there is none. The engine must have read it if it exists.
func (m *Machine) find(k carillon.Key) *entry {
	e := m.entries[store.Ref{Key: k}]
	if e == nil || e.gone {
		if e != nil {
			m.out.await(e.seq)
		}
		return nil
	}
	m.out.await(e.seq)
	return e
}

func notFound(k carillon.Key) error {
	return carillon.Errorf(carillon.NotFound, "name", "there is no job %.64q in namespace %q", k.Name, k.Namespace)
}

func otherGeneration(e *entry) error {
	return carillon.Errorf(carillon.FailedPrecondition, "if_generation", "job %.64q is at generation %d", e.ref.Name, e.state.Generation)
}

// Put creates or replaces a job.
func (m *Machine) Put(now int64, req PutRequest) (carillon.PutResult, error) {
	e := m.find(req.Job.Key())
	if err := permits(e, &req); err != nil {
		return carillon.PutResult{}, err
	}
	switch {
	case e == nil:
		return m.create(now, &req)
	case req.Options.Replace:
		return m.replaceJob(now, e, &req)
	}
	return m.replace(now, e, &req, replans(e, m.jobOf(e), req.Job))
}

// permits returns an error if the options of a put do not allow it to replace e, or to create a job if e is
// nil.
func permits(e *entry, req *PutRequest) error {
	switch o := req.Options; {
	case o.IfAbsent && e != nil:
		return carillon.Errorf(carillon.AlreadyExists, "name", "job %.64q exists already", req.Job.Name)
	case o.IfGeneration != 0 && e == nil:
		return carillon.Errorf(carillon.FailedPrecondition, "if_generation", "job %.64q does not exist", req.Job.Name)
	case o.IfGeneration != 0 && e.state.Generation != o.IfGeneration:
		return otherGeneration(e)
	}
	return nil
}

// Patch changes the named fields of a job. waits are the waits for names that are new in its DependsOn.
func (m *Machine) Patch(now int64, key carillon.Key, patch carillon.Patch, waits ...store.Wait) (carillon.PutResult, error) {
	return m.PatchAt(now, 0, key, patch, waits...)
}

// PatchAt is Patch as of an instant, from which relative times count; 0 is now.
func (m *Machine) PatchAt(now, at int64, key carillon.Key, patch carillon.Patch, waits ...store.Wait) (carillon.PutResult, error) {
	e := m.find(key)
	switch {
	case e == nil:
		return carillon.PutResult{}, notFound(key)
	case patch.IfGeneration != 0 && patch.IfGeneration != e.state.Generation:
		return carillon.PutResult{}, otherGeneration(e)
	}
	old := *m.jobOf(e)
	old.Paused = e.state.Paused
	j, err := patch.Apply(old)
	if err != nil {
		return carillon.PutResult{}, err
	}
	j.Namespace, j.Name = key.Namespace, key.Name
	if err := patch.ValidatePatched(&old, &j, m.cfg.Limits); err != nil {
		return carillon.PutResult{}, err
	}
	if s := m.cfg.Settings(key.Namespace); s != nil && s.Strict {
		if err := plan.CheckRetryWindow(&j); err != nil {
			return carillon.PutResult{}, err
		}
	}
	retimed := plan.Names(&patch, plan.EffectTimes) && replans(e, &old, &j)
	return m.replace(now, e, &PutRequest{Job: &j, At: at, Waits: waits}, retimed)
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

func (m *Machine) create(now int64, req *PutRequest) (carillon.PutResult, error) {
	e, err := m.draft(now, req)
	if err != nil {
		return carillon.PutResult{}, err
	}
	if old := m.entries[e.ref]; old != nil && old.seq == m.out.seq {
		m.seal() // the delete of its namesake must come first
	}
	m.entries[e.ref] = e
	return m.created(e, req.Job), nil
}

// draft returns an entry for a new job that is not in the machine yet.
func (m *Machine) draft(now int64, req *PutRequest) (*entry, error) {
	j := req.Job
	ref, at := store.Ref{Key: j.Key()}, req.at(now)
	e := &entry{ref: ref, timer: -1, fresh: true, state: store.State{
		UID: identity.NewUID(ref.Key, req.Random), Generation: 1, Created: at, Updated: at,
		Priority: j.Priority.Rank(), Jitter: int64(j.Jitter), Paused: j.Paused, Waits: waits(at, j.DependsOn, nil, req.Waits, true),
		Settled: m.cfg.Term.Epoch,
	}}
	m.setSpec(e, req.encoded())
	e.job = j // until it is created: saves decoding, but the job belongs to the caller
	if err := m.plan(e, at); err != nil {
		m.window.bytes -= len(e.spec)
		return nil, err
	}
	return e, nil
}

// created has a new job written and its timer set.
func (m *Machine) created(e *entry, j *carillon.Job) carillon.PutResult {
	e.job = j
	m.touch(e)
	m.rearm(e)
	put := carillon.PutResult{Job: m.view(e), Created: true, Changed: true, Warnings: warnings(j)}
	e.job = nil
	return put
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

// plan sets when the job first runs, as of now.
func (m *Machine) plan(e *entry, now int64) error {
	j := m.jobOf(e)
	anchor, next, expires, err := plan.FirstRun(j, m.scheduleOf(e), toTime(now))
	if err != nil {
		return err
	}
	s := &e.state
	s.Anchor, s.Next, s.Expires, s.Begun = fromTime(anchor), fromTime(next), fromTime(expires), 0
	return nil
}

// replace gives a job other content. retimed says that its times are counted again, even if nothing differs.
func (m *Machine) replace(now int64, e *entry, req *PutRequest, retimed bool) (carillon.PutResult, error) {
	j, spec, old := req.Job, req.encoded(), m.jobOf(e)
	if bytes.Equal(spec, e.spec) && !retimed {
		changed := e.state.Paused != j.Paused
		m.changePaused(e, j.Paused, now)
		return carillon.PutResult{Job: m.view(e), Changed: changed}, nil
	}
	before := e.state
	oldSpec := e.spec
	m.setSpec(e, spec)
	if retimed {
		if err := m.plan(e, req.at(now)); err != nil {
			m.setSpec(e, oldSpec)
			e.state = before
			return carillon.PutResult{}, err
		}
	}
	planned := e.state
	e.state = before // until the entry has left the list where it is filed by its old priority
	m.touch(e)
	e.state = planned
	s := &e.state
	s.Generation++
	s.Updated, s.Priority, s.Jitter, e.fresh = req.at(now), j.Priority.Rank(), int64(j.Jitter), true
	switch {
	case retimed:
		m.retime(e, j, now, before.Next, !rearms(j) && old.Due == j.Due && old.Recurring() == j.Recurring())
	case retimes(old, j):
		m.reread(e, now)
	}
	s.Waits = waits(req.at(now), j.DependsOn, s.Waits, req.Waits, retimed && !j.Recurring() && !s.Run.Live)
	unwait(s)
	if fences(old, j) {
		m.supersede(e)
	}
	m.changePaused(e, j.Paused, now)
	if !e.gone && e.place == idle && e.ended() { // it has already run as often as it is now meant to
		m.remove(e)
	} else {
		m.rearm(e)
	}
	return carillon.PutResult{Job: m.view(e), Changed: true, Warnings: warnings(j)}, nil
}

// fences reports whether a change of a into b ends the attempts in force: more than labels, notes and the
// like differ.
func fences(a, b *carillon.Job) bool {
	x, y := plan.Content(*a), plan.Content(*b)
	return !bytes.Equal(EncodeSpec(&x), EncodeSpec(&y))
}

// supersede makes all unfinished runs of a job go on with its new content.
func (m *Machine) supersede(job *entry) {
	job.content = m.out.seq
	m.fence(job)
	m.refile(job)
}

// fence ends the attempts in force of a job whose content has changed. Each run goes on with its next
// attempt, under the same id and with the new content.
func (m *Machine) fence(job *entry) {
	for _, e := range m.runsOf(job) {
		// A redriven run has its own content.
		if (e.place != running && !e.doubtful()) || (e != job && e.own()) {
			continue
		}
		if m.revoke(e) {
			m.leave(e, false)
		}
		m.concede(e)
		e.state.Run.Grant.Term = store.Term{} // no report ended it, so a repeated report must not be accepted
		m.touch(e)
		m.rearm(e)
	}
}

// refile handles the waiting runs of a job whose content has just changed: once that is durable, each waits
// in the queue of the new target.
func (m *Machine) refile(job *entry) {
	for _, e := range m.runsOf(job) {
		m.follow(e)
	}
	// Parked pending runs are in no other index: those beyond searchPending are found where they were parked.
	missing := int(job.state.Pending) - int(job.children)
	for seq := job.state.Triggers; missing > 0 && seq > 0 && job.state.Triggers-seq < searchPending; seq-- {
		if ref := (store.Ref{Key: job.ref.Key, Seq: seq}); m.entries[ref] == nil {
			m.needs[ref] = struct{}{}
		}
	}
}

// searchPending is how many of a job's newest triggers are looked for among the parked runs.
const searchPending = 10_000

// follow takes a due run out of a queue that is no longer that of its job's target.
func (m *Machine) follow(e *entry) {
	if !e.state.Run.Live || e.gone || e.specOf() == nil || (e.ref.Seq != 0 && e.parent == nil) {
		return
	}
	if (e.place == ready || e.place == aside) && m.changing(e) {
		m.dequeue(e)
		m.block(e)
	}
	if e.state.Phase != carillon.PhaseStaged || m.parkedRight(e) {
		return
	}
	m.touch(e)
	e.state.Phase, e.state.Queue = carillon.PhaseReady, ""
	if e.place == idle {
		m.block(e) // until the move is durable
	}
}

// changing reports whether e's run would be handed out with content of its job that is not durable yet.
func (m *Machine) changing(e *entry) bool {
	return !e.own() && e.parent != nil && e.parent.content > m.out.durable
}

// runsOf returns those of the job and its pending runs in memory that have an unfinished run.
func (m *Machine) runsOf(job *entry) []*entry {
	var out []*entry
	if job.state.Run.Live {
		out = append(out, job)
	}
	if job.children > 0 {
		for _, e := range m.live {
			if e.parent == job {
				out = append(out, e)
			}
		}
		slices.SortFunc(out, func(a, b *entry) int { return a.ref.Compare(b.ref) })
	}
	return out
}

// Delete removes a job with all its unfinished runs, which stay in the history as cancelled.
func (m *Machine) Delete(now int64, key carillon.Key, opts ...carillon.DeleteOption) (carillon.DeleteResult, error) {
	e := m.find(key)
	if e == nil {
		return carillon.DeleteResult{}, notFound(key)
	}
	if o := (carillon.DeleteOptions{}).With(opts...); o.IfGeneration != 0 && o.IfGeneration != e.state.Generation {
		return carillon.DeleteResult{}, otherGeneration(e)
	}
	d := carillon.DeleteResult{Interrupted: m.cancelRuns(e, now, ReasonDeleted)}
	m.remove(e)
	return d, nil
}

// cancelRuns ends what goes on of a job that ends: its unfinished runs, which stay in the history as
// cancelled, and its backfills. It reports whether a consumer had one of the runs. The record of the job
// itself is left to the caller.
func (m *Machine) cancelRuns(job *entry, now int64, reason string) (interrupted bool) {
	for _, r := range m.runsOf(job) {
		if m.revoke(r) {
			interrupted = true
		}
		m.keepRun(r, now, ending{status: carillon.RunCancelled, reason: reason})
		if r != job {
			m.remove(r)
		}
	}
	m.dropBackfills(job.ref.Key)
	return interrupted
}
