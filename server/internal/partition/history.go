package partition

import (
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/store"
)

// History has finished runs written and removed.
type History struct {
	out           *builder
	deadRetention int64 // ns
	most          int   // runs kept in the partition
	atOnce        int   // removed by one sweep
	unswept       int   // written since the last sweep
}

func newHistory(out *builder, cfg *Config) *History {
	return &History{out: out, deadRetention: int64(cfg.DeadRetention), most: cfg.HistoryMost,
		atOnce: cfg.HistoryExpires}
}

// add writes a finished run of the job j, or a record of times that were skipped, as far as the job keeps
// any. Dead runs are always kept. job is the state of the job, nil if it is not in memory.
func (h *History) add(j *carillon.Job, job *store.State, r store.RunRecord) {
	keep := j.HistoryRuns()
	r.Expires = r.Finished + int64(j.HistoryKeep())
	if r.Status == carillon.RunDead {
		r.Expires = r.Finished + h.deadRetention
	} else if keep == 0 {
		return
	}
	if h.out.runs == nil {
		h.out.runs = make([]store.RunRecord, 0, max(1, min(h.out.usual, mostRoom)))
	}
	h.out.runs = append(h.out.runs, r)
	h.out.await(h.out.seq)
	if h.unswept++; 2*h.unswept >= h.atOnce {
		h.Sweep(r.Finished)
	}
	if job == nil || r.Status == carillon.RunDead {
		return
	}
	job.Kept++
	if int(job.Kept) >= keep+max(keep/2, trimSlack) {
		job.Kept = uint32(keep)
		h.out.trims = append(h.out.trims, store.Trim{Key: r.Key, Keep: keep})
	}
}

// Sweep asks for the removal of finished runs whose retention has ended or that are too many. The engine
// calls it now and then; add calls it as many are written.
func (h *History) Sweep(now int64) {
	h.unswept = 0
	if h.out.expire == nil {
		h.out.expire = &store.Expire{Most: h.most}
	}
	h.out.expire.Before = now
	h.out.expire.Limit += h.atOnce
}

// mostRoom bounds the room that is made beforehand for a batch's finished runs, which goes by the previous
// batch.
const mostRoom = 128

// trimSlack is how many runs beyond the job's limit the store may hold before it is trimmed, so that not
// every run deletes one.
const trimSlack = 10

// keepRun writes the run that ends into the history, and counts it.
func (rs *runs) keepRun(e *entry, now int64, end ending) {
	e.concede()
	s := &e.state
	r := store.RunRecord{
		Key: e.ref.Key, ID: s.Identity(rs.cfg.Partition), Grant: s.Run.Grant, Status: end.status,
		Reason: end.reason, Due: s.Run.Due, Started: s.Run.Started, Finished: now, Attempt: s.Run.Attempt,
		Errors: s.Run.Errors, InDoubt: s.Run.InDoubt,
	}
	if end.report != nil {
		r.Worker, r.Response = end.report.Worker, end.report.Response
		if len(r.Response) > carillon.MaxResponse {
			r.Response = r.Response[:carillon.MaxResponse]
		}
	}
	e.countEnd(end.status)
	switch end.status {
	case carillon.RunSucceeded:
		rs.dependencies.succeeded(e.ref.Key, r.ID)
	case carillon.RunDead:
		r.Spec = e.specOf()
	case carillon.RunSkipped:
		if rs.cfg.Events.Skipped != nil {
			rs.cfg.Events.Skipped(end.reason, 1)
		}
	}
	if l := rs.out.events; l.on(now) {
		l.tellRun(now, &r, e.contentGeneration(), 0)
	}
	var job *store.State
	if o := e.owner(); o != nil {
		job = &o.state
		job.Last = store.LastRun{Scheduled: s.Run.Scheduled, Finished: now, Cause: s.Run.Cause, Seq: s.Run.Seq,
			Attempt: s.Run.Attempt, Status: end.status}
	}
	rs.history.add(e.job(), job, r)
	if rs.cfg.Events.Finished != nil {
		rs.cfg.Events.Finished(e.finished(now, end.status))
	}
}

// finished describes the end of e's run, whose state is still in e.
func (e *entry) finished(now int64, status carillon.RunStatus) delivery.Finished {
	f := delivery.Finished{Status: status, Took: -1}
	if e.queue != nil {
		f.Queue = *e.queue
	} else {
		f.Queue = delivery.QueueOf(e.ref.Namespace, e.job().Target)
	}
	if started := e.state.Run.Started; started != 0 {
		f.Took = time.Duration(max(0, now-started))
	}
	return f
}
