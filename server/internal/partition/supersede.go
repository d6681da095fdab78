package partition

import (
	"bytes"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/server/store"
)

// supersedes reports whether a change of a into b ends the attempts in force: more than labels, notes and the
// like differ.
func supersedes(a, b *carillon.Job) bool {
	x, y := plan.Content(*a), plan.Content(*b)
	return !bytes.Equal(EncodeSpec(&x), EncodeSpec(&y))
}

// supersede makes all unfinished runs of a job go on with its new content. Attempts in force end; once the
// content is durable, each waiting run waits in the queue of the new target.
func (js *Jobs) supersede(job *entry, now int64) {
	job.content = js.out.seq
	f := js.records.familyOf(job)
	for _, e := range f.runs {
		js.fence(job, e, now)
	}
	for _, e := range f.runs {
		js.due.follow(e)
	}
	// Parked pending runs are in no other index: those beyond searchPending are found where they were parked.
	missing := int(job.state.Pending) - int(job.children)
	for seq := job.state.Triggers; missing > 0 && seq > 0 && job.state.Triggers-seq < searchPending; seq-- {
		if ref := (store.Ref{Key: job.ref.Key, Seq: seq}); js.records.entries[ref] == nil {
			js.records.needs[ref] = struct{}{}
		}
	}
}

// searchPending is how many of a job's newest triggers are looked for among the parked runs.
const searchPending = 10_000

// fence ends the attempt in force of a run of a job whose content has changed. The run goes on with its next
// attempt, under the same id and with the new content.
func (js *Jobs) fence(job, e *entry, now int64) {
	// A redriven run has its own content.
	if (e.place != running && !e.doubtful()) || (e != job && e.own()) {
		return
	}
	if js.attempts.revoke(e, now) {
		js.attempts.end(e, false)
	}
	e.concede()
	e.state.Run.Grant.Term = store.Term{} // no report ended it, so a repeated report must not be accepted
	js.due.touch(e)
	js.agenda.rearm(e)
}

// follow takes a due run out of a queue that is no longer that of its job's target.
func (d *dueRuns) follow(e *entry) {
	if !e.state.Run.Live || e.place == gone || e.specOf() == nil || (e.ref.Seq != 0 && e.parent == nil) {
		return
	}
	if e.queued() && e.changing(d.out.durable) {
		d.dequeue(e)
		d.block(e)
	}
	if e.state.Phase != carillon.PhaseStaged || e.parkedRight() {
		return
	}
	d.touch(e)
	e.state.Phase, e.state.Queue = carillon.PhaseReady, ""
	if e.place == idle {
		d.block(e) // until the move is durable
	}
}

// changing reports whether e's run would be handed out with content of its job that is not durable yet.
func (e *entry) changing(durable uint64) bool {
	return !e.own() && e.parent != nil && e.parent.content > durable
}
