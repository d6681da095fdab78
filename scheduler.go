package carillon

import (
	"context"
	"time"
)

// Scheduler is everything Carillon does, in five seams. The engine, the client, the router and the guard implement it. An empty
// namespace is the default one, in every call.
type Scheduler interface {
	Jobs
	Runs
	Backfills
	Namespaces
	Work
}

// Jobs keeps jobs. Nothing returns before what it did is durable; errors are *[Error].
type Jobs interface {
	// PutJob stores the job, replacing an older one of the name unless the options say otherwise.
	PutJob(ctx context.Context, job Job, opts ...PutOption) (PutResult, error)
	// PutJobs stores all jobs or none: each name once and at most MaxBatch. It returns once all are durable. An error with
	// Unknown set means that either may come true; all will be stored or none.
	PutJobs(ctx context.Context, jobs []Job) ([]PutResult, error)
	// PatchJob changes the fields that the patch names and leaves the rest. Times are counted anew only if it names one of them;
	// docs/api.md says what each field does to a run that is going.
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
	// TriggerJob runs the job now, beside its schedule. Its id is returned before it has run.
	TriggerJob(ctx context.Context, key Key) (Run, error)
	// SkipRun makes a recurring job pass over its next scheduled time, which stays in the history as skipped.
	SkipRun(ctx context.Context, key Key) (SkipResult, error)
	// ListRuns is the history, newest first: of one job, or across jobs by status (RunDead).
	ListRuns(ctx context.Context, q RunQuery) (RunPage, error)
	GetRun(ctx context.Context, namespace, id string) (Run, error)
	// CancelRun ends a run that has not finished.
	CancelRun(ctx context.Context, namespace, id string) (CancelResult, error)
	// RedriveRun gives a dead run a fresh set of attempts under the same id.
	RedriveRun(ctx context.Context, namespace, id string) (Run, error)
	// RedriveRuns redrives the dead runs of one job, or of the whole namespace if job is empty; it returns how many.
	RedriveRuns(ctx context.Context, namespace, job string) (int, error)
	// CompleteRun is the result of an attempt that answers later (HTTP 202). A stale token → FailedPrecondition.
	CompleteRun(ctx context.Context, namespace string, result Result) error
}

// Backfills run a job at its past times.
type Backfills interface {
	// StartBackfill runs the job at each time that its schedule had in a stretch, also while the job is paused.
	StartBackfill(ctx context.Context, key Key, spec BackfillSpec) (Backfill, error)
	GetBackfill(ctx context.Context, namespace, id string) (Backfill, error)
	// ListBackfills is those of a job, newest first: all that go on, and the ended ones as long as they are kept.
	ListBackfills(ctx context.Context, key Key) ([]Backfill, error)
	// CancelBackfill lets no further run begin and cancels those that have; it is harmless to repeat.
	CancelBackfill(ctx context.Context, namespace, id string) (Backfill, error)
}

// Namespaces keeps what is set for a namespace as a whole.
type Namespaces interface {
	// GetNamespace is the namespace's settings; every namespace has some.
	GetNamespace(ctx context.Context, name string) (Namespace, error)
	// PutNamespace replaces the namespace's settings: see [Namespace.Over] for what it refuses.
	PutNamespace(ctx context.Context, ns Namespace) (Namespace, error)
}

// Work connects consumers.
type Work interface {
	// Connect opens a worker's session. Closing it without Goodbye leaves its runs to their leases; a later session may go
	// on with the same tokens.
	Connect(ctx context.Context, hello Hello) (Session, error)
}

// Session is one worker's connection. Send and Receive may be called at once, each from one goroutine.
type Session interface {
	// Send hands over credits, results and heartbeats. It returns once they are taken, not once they are durable.
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
	Direct    bool // it has a session with every node; otherwise the node serves it for all of them
}

// Credit lets the server deliver N more runs of a queue. N < 0 takes that many unused ones back, or as many as there are;
// WorkResponse.Withdrawn answers each of those.
type Credit struct {
	Queue string
	N     int
}

// WorkRequest goes from worker to server.
type WorkRequest struct {
	Credits    []Credit
	Results    []Result
	Heartbeats []Heartbeat
	Goodbye    bool // free what I still hold at once
	Pong       bool // answers WorkResponse.Ping
}

// WorkResponse goes from server to worker.
type WorkResponse struct {
	Runs   []Run
	Cancel []string // tokens of attempts to stop
	Stale  []string // tokens that are not in force: stop that run, drop its result
	Acks   []string // tokens whose results are durable
	Nodes  []string // addresses of all nodes, this one's first; nothing if it is alone, or they have not changed
	Drain  bool     // the server is leaving: reconnect elsewhere

	// Wanted are queues of which runs wait while the session has no credits; told to those only that are Direct.
	Wanted []string
	// Withdrawn says how many credits were taken back; the others were used.
	Withdrawn []Credit
	// Ping asks the worker for a sign of life: it gets no more runs before it says anything. Pong is enough.
	Ping bool
	// Confirmed are tokens of attempts in force, in answer to heartbeats that asked.
	Confirmed []string
	// Since is a lower bound on when the runs left the node that handed them out, by this process's clock.
	// Their leases were in force then. Zero: unknown.
	Since time.Time
}

// MaxBatch is the most jobs in one PutJobs, and the largest page of a list.
const MaxBatch = 1000

// PutOptions is what PutOption sets.
type PutOptions struct {
	IfAbsent     bool
	IfGeneration uint64 // 0 = any
	Anew         bool
}

// PutOption narrows a put.
type PutOption func(*PutOptions)

// IfAbsent puts only a job that does not exist; otherwise AlreadyExists.
func IfAbsent() PutOption { return func(o *PutOptions) { o.IfAbsent = true } }

// IfGeneration puts only over generation n; otherwise FailedPrecondition.
func IfGeneration(n uint64) PutOption { return func(o *PutOptions) { o.IfGeneration = n } }

// Anew puts the job as if an older one of the name had been deleted first, in one step: it has another uid, its times and
// counts begin anew even if nothing else changes, and unfinished runs of the older one are cancelled. With [IfAbsent] there is
// no older one; [IfGeneration] is about the older one, the new one begins at generation 1. It is not part of the API on the wire.
func Anew() PutOption { return func(o *PutOptions) { o.Anew = true } }

// ResolvePut collects the options.
func ResolvePut(opts []PutOption) PutOptions {
	if len(opts) == 0 {
		return PutOptions{}
	}
	var o PutOptions
	for _, f := range opts {
		f(&o)
	}
	return o
}

// DeleteOptions is what DeleteOption sets.
type DeleteOptions struct {
	IfGeneration uint64 // 0 = any
}

// DeleteOption narrows a delete.
type DeleteOption func(*DeleteOptions)

// DeleteIfGeneration deletes only generation n; otherwise FailedPrecondition.
func DeleteIfGeneration(n uint64) DeleteOption {
	return func(o *DeleteOptions) { o.IfGeneration = n }
}

// ResolveDelete collects the options.
func ResolveDelete(opts []DeleteOption) DeleteOptions {
	if len(opts) == 0 {
		return DeleteOptions{}
	}
	var o DeleteOptions
	for _, f := range opts {
		f(&o)
	}
	return o
}

// PutResult is the outcome of a put.
type PutResult struct {
	Job      Job // as stored, with its status
	Created  bool
	Changed  bool // false: the same job was there already
	Warnings []string
}

// PauseOptions is what SetPaused asks for.
type PauseOptions struct {
	Paused bool
	Note   string // kept with the job; says why
	// CatchUp applies the job's misfire rule to the times that passed while it was paused; otherwise a resumed job goes on
	// from now.
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
	Prevented   bool // it had not begun
	Interrupted bool // an attempt was in force and was told to stop
}

// Patch is a job of which only the named fields count. Field names are those of the API, e.g. "schedule", "data", "labels": see
// [PatchFields]. They are replaced whole; of policies single fields may be named, e.g. "failure_policy.exponential.max", "history.keep":
// see [PatchParts].
type Patch struct {
	Fields       []string
	Job          Job
	IfGeneration uint64 // 0 = any
}

// JobQuery selects jobs of a namespace in name order.
type JobQuery struct {
	Namespace string
	Prefix    string
	Label     string // "key" or "key=value"
	Phase     *Phase
	PageSize  int // default 100, at most MaxBatch
	PageToken string
}

// JobPage is one page; an empty NextPageToken means the end.
type JobPage struct {
	Jobs          []Job
	NextPageToken string
}

// RunQuery selects finished runs, newest first.
type RunQuery struct {
	Namespace string
	Job       string // empty = across jobs, for which Status must be RunDead
	Status    *RunStatus
	PageSize  int // default 100, at most MaxBatch
	PageToken string
}

// RunPage is one page; an empty NextPageToken means the end.
type RunPage struct {
	Runs          []Run
	NextPageToken string
}

// PreviewQuery asks when a schedule would fire.
type PreviewQuery struct {
	Schedule string
	TimeZone string
	DST      DST
	From     time.Time // strictly after; also the anchor of @every and ISO repeats; zero = now
	Due      When
	Count    int // default 10, at most MaxBatch
}
