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
	last          struct {
		queue delivery.Queue // of the last run written, of which the next one is as a rule
		text  string
	}
	resultBytes int // of the results in the batch being filled
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
	if r.Queue == "" {
		r.Queue = h.queueText(delivery.QueueOf(r.Key.Namespace, j.Target))
	}
	r.Labels = j.Labels
	if h.out.runs == nil {
		h.out.runs = make([]store.RunRecord, 0, max(1, min(h.out.usual, mostRoom)))
	}
	h.out.runs = append(h.out.runs, r)
	h.resultBytes += len(r.Response)
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

// queueText returns the queue as the store names it.
func (h *History) queueText(q delivery.Queue) string {
	if q != h.last.queue || h.last.text == "" {
		h.last.queue, h.last.text = q, q.String()
	}
	return h.last.text
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

// resultsPerBatch bounds the results in one batch, in bytes: beyond it the next report begins another. Stores
// write a batch in one piece, and an engine those of all its partitions at once.
const resultsPerBatch = 1 << 20

// full reports whether no more results should be added to the batch being filled.
func (h *History) full() bool { return h.resultBytes >= resultsPerBatch }

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
		Errors: s.Run.Errors, InDoubt: int(s.Run.InDoubt),
	}
	queue := e.runQueue()
	r.Queue = rs.history.queueText(queue)
	if end.report != nil {
		r.Worker, r.Response = end.report.Worker, end.report.Response
		if e.job().History.NoResults {
			r.Response = nil
		}
	}
	e.countEnd(end.status)
	switch end.status {
	case carillon.RunSucceeded:
		rs.dependencies.succeeded(e.ref.Key, r.ID)
	case carillon.RunDead:
		r.Spec, r.Trace = e.specOf(), s.Trace
	case carillon.RunSkipped:
		if rs.cfg.Events.Skipped != nil {
			rs.cfg.Events.Skipped(end.reason, 1)
		}
	}
	rs.out.events.tellRun(now, &r, e.contentGeneration(), 0)
	var job *store.State
	if o := e.owner(); o != nil {
		job = &o.state
		job.Last = store.LastRun{Scheduled: s.Run.Scheduled, Finished: now, Cause: s.Run.Cause, Seq: s.Run.Seq,
			Attempt: int32(s.Run.Attempt), Status: end.status,
			Failures: failuresAfter(job.Last.Failures, end.status)}
	}
	rs.history.add(e.job(), job, r)
	if rs.cfg.Events.Finished != nil {
		rs.cfg.Events.Finished(rs.finished(e, queue, now, end.status))
	}
}

// runQueue returns the queue of e's run: of its attempt in force, or of its target.
func (e *entry) runQueue() delivery.Queue {
	if e.queue != nil {
		return *e.queue
	}
	return delivery.QueueOf(e.ref.Namespace, e.job().Target)
}

// finished describes the end of e's run in a queue; its state is still in e.
func (rs *runs) finished(e *entry, queue delivery.Queue, now int64,
	status carillon.RunStatus) delivery.Finished {
	f := delivery.Finished{Queue: queue, Status: status, Took: -1, Trace: rs.finishedTrace(e)}
	if started := e.state.Run.Started; started != 0 {
		f.Took = time.Duration(max(0, now-started))
	}
	return f
}
