package checker

import "time"

// History is what the observers wrote down of one run of a system. It can be written to a file as JSON and
// read back.
type History struct {
	Profile   string // which harness and settings: "sim", "chaos", "soak"
	Seed      uint64
	Build     string // what was judged
	Constants Constants

	Start  time.Time // before the first operation
	Healed time.Time // the last fault had healed; from here on everything must come to rest
	End    time.Time // when Final was read

	Ops        []Op
	Attempts   []Attempt
	Results    []Result
	Begins     []Begin     `json:",omitempty"`
	Heartbeats []Heartbeat `json:",omitempty"`
	Gates      []Gate      `json:",omitempty"`
	Faults     []Fault     `json:",omitempty"`
	Claims     []Claim     `json:",omitempty"`
	Releases   []Release   `json:",omitempty"`
	Writes     []Write     `json:",omitempty"`
	Final      Final

	// Homes is the partition of each job, by "namespace/name". With it a fault excuses only jobs of
	// partitions that it can have reached.
	Homes map[string]int `json:",omitempty"`
}

// Constants are what the system under test promises, and what its harness can measure. Zero means the
// default.
type Constants struct {
	Clock      time.Duration // how far the owners' clocks may run ahead of the harness's; 0 in a simulation
	Dispatch   time.Duration // from due to the first attempt when nothing is wrong; default 1 s
	Recovery   time.Duration // from the end of the last fault until lateness is normal again; default 30 s
	Apply      time.Duration // from a durable change to its effect; default 0: at once
	OwnerLease time.Duration // of a partition; a node that died is replaced after it; default 15 s
	// most time in which nobody owns a partition that changes hands in order; default 3 s
	Handover     time.Duration
	Lease        time.Duration // of an attempt whose job does not say; default 2 min
	Grace        time.Duration // how long a worker that was told may take to stop a run; default 5 s
	MisfireAfter time.Duration // a time this late, because nobody owned it, is missed; default 5 s
	CatchUpLimit int           // most runs made up for by a job that does not say; default 1000
	DrainRate    float64       // runs a second that the harness's workers surely get through; default 10
	// runs that the harness's workers take at a time; while all are taken nothing is late; 0 = no limit
	Slots int
	// how long after its return an operation of unknown outcome may take effect; 0 = to the end
	Linger  time.Duration
	Virtual bool // retries are purely virtual, as on the Dapr face: no lower bound after the attempt's end
	// Kept is how long an attempt of a job of Dapr may stay with a stream of a node that has lost its partition
	// and is not heard of any more; default 30 s.
	Kept time.Duration
	// OneGate says that a limit which sidecars name holds over all nodes together, not at each of them.
	OneGate bool
}

// Outcome is how an operation went, as its caller knows it.
type Outcome string

// The outcomes of operations.
const (
	OK   Outcome = "ok"
	Fail Outcome = "fail" // certainly not applied
	Info Outcome = "info" // unknown: it may take effect at any moment after its call
)

// OpKind says what an operation asked for.
type OpKind string

// The kinds of operations.
const (
	Put            OpKind = "put"
	BatchPut       OpKind = "batch" // one Op for each job; they share Op.Batch
	Delete         OpKind = "delete"
	DeletePrefix   OpKind = "delete-prefix" // Op.Job is the prefix
	Patch          OpKind = "patch"
	Pause          OpKind = "pause"
	Resume         OpKind = "resume" // Op.CatchUp says what becomes of the times that passed
	Trigger        OpKind = "trigger"
	Skip           OpKind = "skip"    // of Op.RunID, or of the next time if that is empty
	Cancel         OpKind = "cancel"  // of Op.RunID
	Redrive        OpKind = "redrive" // of Op.RunID, or of every dead run of the job if that is empty
	Backfill       OpKind = "backfill"
	BackfillCancel OpKind = "backfill-cancel"
	Get            OpKind = "get"
	List           OpKind = "list" // Op.Job is the prefix, Answer.Listed what came
	PutNamespace   OpKind = "put-namespace"
	Purge          OpKind = "purge" // of the runs that wait in a queue of a namespace: Spec.Queue
)

// Op is one operation of a client.
type Op struct {
	Kind      OpKind
	Client    string
	Namespace string
	Job       string    `json:",omitempty"`
	Invoke    time.Time // just before the call
	Return    time.Time // just after it; of Info too
	Outcome   Outcome
	Error     string `json:",omitempty"` // for people
	NotFound  bool   `json:",omitempty"` // of Fail: because there is no such job
	Refused   bool   `json:",omitempty"` // of Fail: because a condition (IfAbsent, IfGeneration) did not hold

	// Spec is, of put and batch: the job; of patch: the fields named in Fields; of backfill: its own Overlap.
	Spec         *Job           `json:",omitempty"`
	Fields       []string       `json:",omitempty"` // of patch: JSON names of the fields of Job that it changes
	IfAbsent     bool           `json:",omitempty"` // of put
	Replace      bool           `json:",omitempty"` // of put: as if what there was had been deleted first
	IfGeneration uint64         `json:",omitempty"` // of put, patch; 0 = any
	Batch        string         `json:",omitempty"` // of batch: equal for its jobs
	CatchUp      bool           `json:",omitempty"` // of resume: apply the misfire rule to what passed
	RunID        string         `json:",omitempty"` // of skip, cancel, redrive
	BackfillID   string         `json:",omitempty"` // of backfill-cancel
	From         time.Time      `json:",omitzero"`  // of backfill: the first time, inclusive
	To           time.Time      `json:",omitzero"`  // of backfill: the last time, inclusive
	Limits       map[string]int `json:",omitempty"` // of put-namespace: attempts in force by concurrency key
	// of put-namespace: how often attempts may begin, by concurrency key; "" is all of the namespace
	Rates  map[string]Rate `json:",omitempty"`
	Answer Answer          `json:",omitzero"`
}

// Rate is how often attempts may begin: in any time W at most Burst + W·Count/Period, over all nodes,
// whatever fails.
type Rate struct {
	Count  int
	Period time.Duration
	Burst  int
}

// Answer is what an operation was told. Fields that its kind does not have stay zero.
type Answer struct {
	Found      bool      `json:",omitempty"` // of get
	Generation uint64    `json:",omitempty"` // of put, batch, patch, pause, resume, get
	UID        string    `json:",omitempty"`
	NextRun    time.Time `json:",omitzero"`  // zero = none
	Created    bool      `json:",omitempty"` // of put
	Changed    bool      `json:",omitempty"` // of put
	Payload    string    `json:",omitempty"` // of get: the payload's hash
	Paused     bool      `json:",omitempty"` // of get
	RunID      string    `json:",omitempty"` // of trigger, skip: the run
	BackfillID string    `json:",omitempty"` // of backfill
	Runs       int       `json:",omitempty"` // of backfill: times in the stretch
	Deleted    int       `json:",omitempty"` // of delete-prefix: jobs
	Listed     []Listed  `json:",omitempty"` // of list
	Namespaces []string  `json:",omitempty"` // of list: the namespaces of what came, if the harness notes them
}

// Listed is one job in the answer to a list.
type Listed struct {
	Namespace  string
	Job        string
	Generation uint64
	Payload    string
	Paused     bool
}

// Job is a job in the checker's own words. A zero field has the product's default.
type Job struct {
	// cron, @every, macro or ISO 8601 repeat; empty = one-shot
	Schedule string        `json:"schedule,omitempty"`
	Zone     string        `json:"zone,omitempty"`     // IANA; default UTC
	Literal  bool          `json:"literal,omitempty"`  // dst: literal
	Due      time.Time     `json:"due,omitzero"`       // as asked; zero = not given, or relative
	Relative bool          `json:"relative,omitempty"` // the due time was counted from now: After
	DueIn    time.Duration `json:"due_in,omitempty"`   // of Relative
	Expires  time.Time     `json:"expires,omitzero"`   // an absolute ttl
	// a relative one, from due if given, else from creation
	TTL            time.Duration `json:"ttl,omitempty"`
	Repeats        uint64        `json:"repeats,omitempty"`
	Jitter         time.Duration `json:"spread,omitempty"`
	Overlap        string        `json:"overlap,omitempty"` // serial (default), skip, allow, replace
	Misfire        string        `json:"misfire,omitempty"` // latest (default), all, skip
	CatchUpLimit   int           `json:"catch_up_limit,omitempty"`
	CatchUpWindow  time.Duration `json:"catch_up_window,omitempty"`
	Policy         Policy        `json:"policy,omitzero"`
	Timeout        time.Duration `json:"timeout,omitempty"`
	Lease          time.Duration `json:"lease,omitempty"`
	Priority       string        `json:"class,omitempty"`
	ConcurrencyKey string        `json:"concurrency_key,omitempty"`
	After          []string      `json:"after,omitempty"` // names in the same namespace
	Paused         bool          `json:"paused,omitempty"`
	Payload        string        `json:"payload,omitempty"` // its hash
	Off            []Stretch     `json:"off,omitempty"`     // when its schedule does not run, by calendars
	// what the target is: a worker queue, or its kind and address; see DaprQueue
	Queue    string `json:"queue,omitempty"`
	KeepRuns int    `json:"keep_runs,omitempty"`
}

// Stretch is some time: From <= t < To.
type Stretch struct{ From, To time.Time }

// Policy is a failure policy.
type Policy struct {
	// drop, constant, schedule, exponential; empty = the default of the job's kind
	Kind       string        `json:"kind,omitempty"`
	Interval   time.Duration `json:"interval,omitempty"`
	Initial    time.Duration `json:"initial,omitempty"`
	Factor     float64       `json:"factor,omitempty"`
	Max        time.Duration `json:"max,omitempty"`
	Jitter     time.Duration `json:"jitter,omitempty"`
	MaxRetries *int          `json:"max_retries,omitempty"` // nil = 4 for exponential, else no limit
	// dead, drop; empty = dead for one-shots, drop otherwise
	OnExhausted string `json:"on_exhausted,omitempty"`
	Cron        string `json:"cron,omitempty"` // of schedule
	// The job may pause itself after so many failures. Each attempt of it is then a [Pause] of unknown outcome.
	PauseAfter uint32 `json:"pause_after,omitempty"`
}

// Attempt is a run as it came to a worker, written down by the job's body before it does anything else.
type Attempt struct {
	RunID     string
	Namespace string
	Job       string
	Cause     string    // schedule, trigger, backfill
	Scheduled time.Time // when the schedule meant it
	Due       time.Time `json:",omitzero"` // when this attempt was due, as the product said
	Number    int       // from 1
	Token     string
	UID       string `json:",omitempty"` // of the job whose run it is, of a job of Dapr
	Payload   string `json:",omitempty"` // hash of what came
	Backfill  string `json:",omitempty"` // id of its backfill
	Worker    string
	Node      string `json:",omitempty"` // through which node it came
	Partition int    `json:",omitempty"` // of its run
	// under which it was handed out on a stream; 0 = not known, or not on a stream
	Epoch uint64    `json:",omitempty"`
	At    time.Time // by the harness
	// Started is when the product says that it was handed out, and Lease how long it then lives without a
	// heartbeat; only where the clocks of all are one, and where it is known.
	Started time.Time     `json:",omitzero"`
	Lease   time.Duration `json:",omitempty"`
	// namespace that the worker works for, if the harness says; else Namespace
	Tenant  string `json:",omitempty"`
	InDoubt int    `json:",omitempty"` // how many attempts of the run were in doubt by then, as the product said
}

// Begin is that a worker began an attempt that had waited for it: its process was stopped when the attempt
// came.
type Begin struct {
	RunID  string
	Number int
	Worker string
	At     time.Time
}

// ResultKind is what a worker said of an attempt.
type ResultKind string

// The kinds of results.
const (
	Success    ResultKind = "success"
	Failure    ResultKind = "failure"
	Permanent  ResultKind = "permanent"   // a failure not to be retried
	RetryAfter ResultKind = "retry-after" // a failure with a lower bound: Result.After
	Progress   ResultKind = "progress"
	Reschedule ResultKind = "reschedule" // again at Result.To
	Fabricated ResultKind = "fabricated" // a success with a made-up token: it must change nothing
	LostWorker ResultKind = "lost"       // nothing was sent: the worker crashed, left or hung here
)

// ResultVerdict is what the product said to a result.
type ResultVerdict string

// The answers to results.
const (
	None  ResultVerdict = ""      // nothing was heard
	Acked ResultVerdict = "acked" // it is durable
	Stale ResultVerdict = "stale" // it changed nothing
)

// Result is a worker's word on an attempt, and the answer.
type Result struct {
	RunID   string
	Token   string
	Number  int
	Kind    ResultKind
	After   time.Duration `json:",omitempty"` // of retry-after
	To      time.Time     `json:",omitzero"`  // of reschedule
	Sent    time.Time
	Told    time.Time     `json:",omitzero"` // zero: nothing was told
	Verdict ResultVerdict `json:",omitempty"`
}

// Heartbeat is a sign of life that a worker sent for an attempt. Without heartbeats in the history a lease is
// taken to be never extended when it excuses a second attempt, and always when it must have ended.
type Heartbeat struct {
	RunID string
	Token string
	At    time.Time
	Stale bool `json:",omitempty"` // it was answered so
}

// WorkerStopped is the kind of fault under which a worker's process stands still: it keeps its streams, takes
// no note of what comes, and says nothing. An attempt that comes meanwhile is written down when it comes, and
// as a Begin if it is begun afterwards.
const WorkerStopped = "worker stopped"

// Network is the target of a fault that no node has: what it touches is between them.
const Network = "the network"

// Fault is one thing that the nemesis did.
type Fault struct {
	// Kind is "kill", "pause", "partition", "slow store", "lost acknowledgements" … One that begins with
	// "worker" concerns workers only: it excuses a second attempt, and lateness no longer than it lasts; one
	// that begins with "worker endpoint" the lateness of jobs alone that call one of the targets, and until
	// their retries have caught up.
	Kind    string
	Targets []string `json:",omitempty"` // nodes or workers, or Network; none = everything
	From    time.Time
	To      time.Time
	// Skew is how far the owners' clocks were wrong meanwhile, those that ran ahead above zero: it excuses so
	// much, and no more.
	Skew time.Duration `json:",omitempty"`
	// Orderly says that nothing went wrong: nodes came or left as they should. It excuses nothing.
	Orderly bool `json:",omitempty"`
	// Holds says that a node or a link may have kept what was on its way to a worker, and let it go when the
	// fault was over.
	Holds bool `json:",omitempty"`
	// Outside says that it held what no node could take back any more, however old it was: on the way from
	// the last node to a worker.
	Outside bool `json:",omitempty"`
	// Minor says that the rest of the cluster and the store could go on: it excuses no more than OwnerLease +
	// Dispatch.
	Minor bool `json:",omitempty"`
	// Back says when the store went back to what it held at From: what was committed in between is lost, and
	// nothing else. Until To nodes may not have noticed. Zero = it did not.
	Back time.Time `json:",omitzero"`
	// Shut and Opened are of a fault of the kind [QueuePaused]. A zero Shut: the pause was not acknowledged.
	Shut   time.Time `json:",omitzero"`
	Opened time.Time `json:",omitzero"`
}

// Claim is that a node became the owner of a partition, as the store committed it.
type Claim struct {
	Partition int
	Epoch     uint64
	Nonce     uint64 `json:",omitempty"`
	Node      string // instance, not only the name
	Invoke    time.Time
	Return    time.Time
}

// Release is that an owner gave up a partition in order.
type Release struct {
	Partition int
	Epoch     uint64
	Node      string
	At        time.Time
}

// Write is one change of a run's record in the store, in commit order within its partition.
type Write struct {
	Partition int
	Epoch     uint64
	Nonce     uint64 `json:",omitempty"`
	Node      string
	At        time.Time
	RunID     string `json:",omitempty"`
	// state before: "", pending, granted, done, failed, dead, cancelled, skipped
	From    string `json:",omitempty"`
	To      string `json:",omitempty"`
	Attempt int    `json:",omitempty"` // of a grant
	Reason  string `json:",omitempty"`
	Refused bool   `json:",omitempty"` // the store refused it: its epoch was over
}

// Final is what was read at the end, from the product itself.
type Final struct {
	Jobs []FinalJob
	Runs []FinalRun // the history, newest or oldest first
	// what nothing accounts for: records, index entries, goroutines, files, credits
	Left     []string          `json:",omitempty"`
	Owners   []Owner           `json:",omitempty"` // who owns what, as each node sees it
	Overdue  int               `json:",omitempty"` // runs due that nobody has
	Counters map[string]uint64 `json:",omitempty"` // of the harness or the product: "stale_refused", "rejoins" …
	// Whole says that Jobs lists every job of every namespace that was used and Runs every run that retention
	// kept. Otherwise nothing is concluded from what is not there.
	Whole bool
}

// FinalJob is a job at the end. A job that is gone is not listed.
type FinalJob struct {
	Namespace  string
	Job        string
	UID        string
	Generation uint64
	Paused     bool
	Payload    string
	NextRun    time.Time `json:",omitzero"`
	Counters   Counters  `json:",omitzero"`
	// Unfinished is how many of its runs that have had an attempt had not ended when Counters were read, and
	// the records of those that had are in Final.Runs; nil = not known.
	Unfinished *uint64 `json:",omitempty"`
}

// Counters are what a job counted.
type Counters struct {
	Fired, Succeeded, Failed, Retried, Dead, Skipped, Late, Dropped, Cancelled uint64
}

// FinalRun is a record of the history: a run, or a stretch of times that did not run.
type FinalRun struct {
	RunID     string
	Namespace string
	Job       string
	Status    string // scheduled, staged, running, retrying, succeeded, failed, dead, cancelled, skipped
	Reason    string `json:",omitempty"`
	Cause     string
	Scheduled time.Time
	From      time.Time `json:",omitzero"`  // the first of the Skipped
	Skipped   uint64    `json:",omitempty"` // times that it stands for; 0 on a run
	Attempt   int       `json:",omitempty"`
	Finished  time.Time `json:",omitzero"`
	Backfill  string    `json:",omitempty"`
	UID       string    `json:",omitempty"` // of the job whose run it is, which need not be there any more
	InDoubt   int       `json:",omitempty"` // how many of its attempts were in doubt, as the product says
}

// Owner is who a node thinks owns a partition.
type Owner struct {
	Seen      string // the node that was asked
	Partition int
	Node      string
	Epoch     uint64
}
