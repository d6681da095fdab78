package carillon

import (
	"cmp"
	"context"
	"time"
)

// Scheduler is everything that Carillon does, in a few interfaces. Package client implements it over gRPC; a
// node builds it from its engine or its cluster's router, and its hub. In every call an empty namespace is
// the default one, but for Watch, to which it is all of them.
type Scheduler interface {
	Jobs
	Runs
	Bulk
	Backfills
	Namespaces
	Events
	Calendars
	Timetables
	Payloads
	Work
}

// Jobs stores jobs. A call returns only when its change is durable; errors are *[Error].
type Jobs interface {
	// PutJob stores the job. It replaces an older one with the same name unless the options say otherwise.
	PutJob(ctx context.Context, job Job, opts ...PutOption) (PutResult, error)
	// PutJobs stores all jobs or none: each name once and at most MaxBatch. It returns once all are durable.
	// After an error with Unknown set, all will be stored or none, and it is not known which.
	PutJobs(ctx context.Context, jobs []Job) ([]PutResult, error)
	// PatchJob changes the fields that the patch names and keeps the rest. Times are only counted again if it
	// names one of them; docs/api.md lists what each field does to an unfinished run.
	PatchJob(ctx context.Context, key Key, patch Patch) (PutResult, error)
	// SetPaused pauses or resumes; a paused job fires nothing. Both are harmless to repeat.
	SetPaused(ctx context.Context, key Key, p PauseOptions) (Job, error)
	GetJob(ctx context.Context, key Key) (Job, error)
	ListJobs(ctx context.Context, q JobQuery) (JobPage, error)
	// DeleteJob removes the job and cancels its run in force; unknown → NotFound.
	DeleteJob(ctx context.Context, key Key, opts ...DeleteOption) (DeleteResult, error)
	// DeleteJobs removes every job whose name begins with the prefix, which must not be empty.
	DeleteJobs(ctx context.Context, namespace, prefix string) (int, error)
}

// Runs shows runs and acts on them.
type Runs interface {
	// TriggerJob runs the job now, beside its schedule and whatever runs, unless the options say otherwise. It
	// returns the run's id before the run.
	TriggerJob(ctx context.Context, key Key, opts ...TriggerOption) (Run, error)
	// SkipRun makes a recurring job skip its next scheduled time, which stays in the history as skipped.
	SkipRun(ctx context.Context, key Key) (SkipResult, error)
	// ListRuns returns runs in any state, of one job or across jobs: first, if they are asked for, the next
	// run of each job (RunScheduled) in the order of when they are due; then those that are not finished, in
	// the order of their jobs' names; then the finished ones, newest first. It reads what is stored: an attempt
	// shows about a second after it was handed out.
	ListRuns(ctx context.Context, q RunQuery) (RunPage, error)
	GetRun(ctx context.Context, namespace, id string) (Run, error)
	// CancelRun ends an unfinished run.
	CancelRun(ctx context.Context, namespace, id string) (CancelResult, error)
	// RedriveRun gives a dead run a fresh set of attempts under the same id.
	RedriveRun(ctx context.Context, namespace, id string) (Run, error)
	// RedriveRuns redrives the dead runs of one job, or of the whole namespace if job is empty, and returns
	// how many.
	RedriveRuns(ctx context.Context, namespace, job string) (int, error)
	// CompleteRun reports the result of an attempt that answers later (HTTP 202, or a broker's target that
	// awaits completion). A stale token → FailedPrecondition.
	CompleteRun(ctx context.Context, namespace string, result Result) error
}

// Backfills run a job at its past times.
type Backfills interface {
	// StartBackfill runs the job at each past time of its schedule that the spec selects, even while the job
	// is paused.
	StartBackfill(ctx context.Context, key Key, spec BackfillSpec) (Backfill, error)
	GetBackfill(ctx context.Context, namespace, id string) (Backfill, error)
	// ListBackfills returns the backfills of a job, newest first: all running ones, and ended ones as long as
	// they are kept.
	ListBackfills(ctx context.Context, key Key) ([]Backfill, error)
	// CancelBackfill prevents further runs and cancels those that have begun; it is harmless to repeat.
	CancelBackfill(ctx context.Context, namespace, id string) (Backfill, error)
}

// Namespaces stores the settings of namespaces.
type Namespaces interface {
	// GetNamespace returns the namespace's settings; every namespace has some.
	GetNamespace(ctx context.Context, name string) (Namespace, error)
	// ListNamespaces returns the namespaces that have settings or a job, in name order. Finished runs alone do
	// not count.
	ListNamespaces(ctx context.Context, q NamespaceQuery) (NamespacePage, error)
	// PutNamespace replaces the namespace's settings: see [Namespace.Over] for what it refuses.
	PutNamespace(ctx context.Context, ns Namespace) (Namespace, error)
}

// Calendars stores calendars.
type Calendars interface {
	// PutCalendar stores a calendar, or replaces it as a whole: see [Calendar.Over] for what it refuses.
	PutCalendar(ctx context.Context, c Calendar) (Calendar, error)
	GetCalendar(ctx context.Context, namespace, name string) (Calendar, error)
	// ListCalendars returns calendars of a namespace, in name order.
	ListCalendars(ctx context.Context, q CalendarQuery) (CalendarPage, error)
	// DeleteCalendar removes a calendar; unknown → NotFound. For jobs that name it, it is then as if they did
	// not.
	DeleteCalendar(ctx context.Context, namespace, name string, opts ...DeleteOption) error
}

// Work connects workers.
type Work interface {
	// Connect opens a worker's session. If it is closed without Goodbye, its runs wait for their leases; a
	// later session may go on with the same tokens.
	Connect(ctx context.Context, hello Hello) (Session, error)
}

// Session is one worker's connection. Send and Receive may be called concurrently, each from one goroutine.
type Session interface {
	// Send hands over credits, results and heartbeats. It returns once they are accepted, not once they are
	// durable.
	Send(ctx context.Context, req WorkRequest) error
	// Receive waits for the next message. After an error the session is over.
	Receive(ctx context.Context) (WorkResponse, error)
	Close() error
}

// Hello introduces a worker.
type Hello struct {
	Namespace string
	Queues    []string
	WorkerID  string
	Labels    map[string]string
	Version   string // its library and that one's version, "carillon-go/v0.3.1"; for people, up to 256 bytes
	Direct    bool   // it has a session with every node; otherwise the node serves it for all of them
	Payloads  bool   // it reads payloads that come as a reference; a node with a payload store demands it
}

// Credit allows the server to deliver N more runs of a queue. N < 0 takes back that many unused ones, or as
// many as there are; each such request is answered by WorkResponse.Withdrawn.
type Credit struct {
	Queue string
	N     int
}

// WorkRequest is a message from worker to server.
type WorkRequest struct {
	Credits    []Credit
	Results    []Result
	Heartbeats []Heartbeat
	Goodbye    bool // the worker's unfinished runs are free at once
	Pong       bool // answers WorkResponse.Ping
}

// WorkResponse is a message from server to worker.
type WorkResponse struct {
	Runs   []Run
	Cancel []string // tokens of attempts to stop
	Stale  []string // tokens that are not in force: stop the run, drop its result
	Acks   []string // tokens whose results are durable
	Nodes  []string // addresses of all nodes, this one first; empty if it is alone, or they have not changed
	Drain  bool     // the server is leaving: reconnect elsewhere

	// Wanted are queues with runs waiting while the session has no credits; sent to Direct workers only.
	Wanted []string
	// Withdrawn tells how many credits were taken back; the rest of those asked for were used.
	Withdrawn []Credit
	// Ping asks the worker for a sign of life: it gets no more runs until it sends something. Pong is enough.
	Ping bool
	// Confirmed are tokens of attempts in force, in answer to heartbeats that asked.
	Confirmed []string
	// Since is a lower bound, by this process's clock, on when the runs left the node that handed them out.
	// Their leases were in force then. Zero: unknown.
	Since time.Time
}

// MaxBatch is the most jobs in one PutJobs, and the largest page of a list.
const MaxBatch = 1000

// PutOptions holds what PutOption values set.
type PutOptions struct {
	IfAbsent     bool
	IfGeneration uint64 // 0 = any
	Replace      bool
}

// PutOption restricts or changes a put. [PutOptions] is one, too.
type PutOption interface{ setPut(o *PutOptions) }

func (o PutOptions) setPut(to *PutOptions) {
	to.IfAbsent, to.Replace = to.IfAbsent || o.IfAbsent, to.Replace || o.Replace
	to.IfGeneration = cmp.Or(o.IfGeneration, to.IfGeneration)
}

type putOption func(o *PutOptions)

func (f putOption) setPut(o *PutOptions) { f(o) }

// IfAbsent puts the job only if it does not exist; otherwise AlreadyExists.
func IfAbsent() PutOption { return putOption(func(o *PutOptions) { o.IfAbsent = true }) }

// IfGeneration puts over, or deletes, only generation n of the job; otherwise FailedPrecondition.
func IfGeneration(n uint64) interface {
	PutOption
	DeleteOption
} {
	return generation(n)
}

type generation uint64

func (n generation) setPut(o *PutOptions)       { o.IfGeneration = uint64(n) }
func (n generation) setDelete(o *DeleteOptions) { o.IfGeneration = uint64(n) }

// Replace puts the job as if an older one with its name had been deleted first, in one step: it gets another
// uid, its times and counts start again even if nothing else changes, and unfinished runs of the older job
// are cancelled. With [IfAbsent] there is no older one; [IfGeneration] refers to the older one, and the new
// one starts at generation 1. It is not part of the API on the wire.
func Replace() PutOption { return putOption(func(o *PutOptions) { o.Replace = true }) }

// With returns o after the options.
func (o PutOptions) With(opts ...PutOption) PutOptions {
	if len(opts) == 0 {
		return o
	}
	set := o
	for _, opt := range opts {
		opt.setPut(&set)
	}
	return set
}

// DeleteOptions holds what DeleteOption values set.
type DeleteOptions struct {
	IfGeneration uint64 // 0 = any
}

// DeleteOption restricts a delete.
type DeleteOption interface{ setDelete(o *DeleteOptions) }

// With returns o after the options.
func (o DeleteOptions) With(opts ...DeleteOption) DeleteOptions {
	if len(opts) == 0 {
		return o
	}
	set := o
	for _, opt := range opts {
		opt.setDelete(&set)
	}
	return set
}

// TriggerOptions say how a triggered run differs from the job's other runs. A run with data or metadata of
// its own keeps the job's content of the moment of the trigger, whatever is put afterwards.
type TriggerOptions struct {
	Data     *Data             // in place of the job's; nil: the job's
	Metadata map[string]string // in place of the job's as a whole; empty: the job's
	// Overlap is the rule for the job's unfinished runs: of its schedule, by other triggers, redriven or of a
	// backfill. nil is OverlapAllow.
	//
	//	OverlapAllow    the run begins beside them
	//	OverlapSkip     nothing is begun: the answer is FailedPrecondition
	//	OverlapReplace  they are cancelled
	//	OverlapSerial   is refused: not supported yet
	Overlap *Overlap
}

// TriggerOption changes a trigger. [TriggerOptions] is the only one.
type TriggerOption interface{ setTrigger(o *TriggerOptions) }

func (o TriggerOptions) setTrigger(to *TriggerOptions) {
	to.Data, to.Overlap = cmp.Or(o.Data, to.Data), cmp.Or(o.Overlap, to.Overlap)
	if len(o.Metadata) > 0 {
		to.Metadata = o.Metadata
	}
}

// With returns o after the options.
func (o TriggerOptions) With(opts ...TriggerOption) TriggerOptions {
	set := o
	for _, opt := range opts {
		opt.setTrigger(&set)
	}
	return set
}

// Own reports whether the run gets content of its own.
func (o *TriggerOptions) Own() bool { return o.Data != nil || len(o.Metadata) > 0 }

// Rule returns the overlap rule.
func (o *TriggerOptions) Rule() Overlap {
	if o.Overlap == nil {
		return OverlapAllow
	}
	return *o.Overlap
}

// PutResult is the outcome of a put.
type PutResult struct {
	Job      Job // as stored, with its status
	Created  bool
	Changed  bool // false: the same job was stored already
	Warnings []string
}

// PauseOptions is what SetPaused asks for.
type PauseOptions struct {
	Paused bool
	Note   string // kept with the job; says why
	// CatchUp applies the job's misfire rule to the times that passed while it was paused; otherwise a
	// resumed job goes on from now.
	CatchUp bool
}

// SkipResult is the outcome of SkipRun.
type SkipResult struct {
	Time time.Time // the scheduled time that will not run
	Job  Job       // with its next time
}

// DeleteResult is the outcome of a delete.
type DeleteResult struct {
	Interrupted bool // an attempt was in force and was told to stop
}

// CancelResult is the outcome of a cancel.
type CancelResult struct {
	Prevented   bool // the run had not begun
	Interrupted bool // an attempt was in force and was told to stop
}

// Patch changes the named fields of a job. Field names are those of the API, e.g. "schedule", "data",
// "labels": see [PatchFields]. They are replaced as a whole; of policies single fields may be named, e.g.
// "failure_policy.exponential.max", "history.keep": see [PatchParts].
type Patch struct {
	Fields       []string
	Job          Job
	IfGeneration uint64 // 0 = any
}
