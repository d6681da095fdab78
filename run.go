package carillon

import "time"

// Run is one occurrence of a job. A worker gets it with Data and Token; the history has its outcome.
type Run struct {
	ID        string // deterministic; equal on every attempt: the idempotency key
	Namespace string
	Job       string
	Cause     Cause
	Status    RunStatus
	Scheduled time.Time // when the schedule meant it
	Due       time.Time // when this attempt was due: Scheduled plus spread, or the retry's time
	Attempt   int       // from 1; 0 = none yet
	Started   time.Time // this attempt's
	Finished  time.Time // the run's; zero = unfinished

	// Set on a delivery.
	Token    string        // proves that a result belongs to the attempt in force
	Queue    string        // the worker queue it came through
	Deadline time.Time     // end of the attempt's timeout
	Lease    time.Duration // how long the attempt lives without a heartbeat
	Data     Data
	Metadata map[string]string

	// Set on a finished run.
	Errors   []AttemptError // newest last, at most 10 are kept; also while it is unfinished and after a redrive
	Response []byte         // up to 4 KiB of what an HTTP target answered
	Worker   string         // who ran the last attempt
	Reason   string         // why it did not run: "paused", "overlap", "misfire", "expired", …
	Skipped  uint64         // scheduled times that this record stands for, up to Scheduled; 0 on a run
	From     time.Time      // the first of the Skipped

	Progress *Progress // what the attempt in force last said; nil = nothing. It is lost with the node.
	Backfill string    // id of the backfill that made it; empty = none

	// InDoubt is how many of its attempts a node may have handed out that ended without order, before the store knew of it. Such
	// an attempt is made again under its own number and token, so consumers may have had it more than once.
	InDoubt int
}

// Progress is how far an attempt says it is.
type Progress struct {
	Percent float64 // 0 to 100
	Message string  // at most MaxProgressMessage bytes
	At      time.Time
}

// AttemptError is why one attempt failed.
type AttemptError struct {
	Attempt  int
	At       time.Time
	Message  string
	Redriven bool // the run died of it, or after it, and has been redriven since
}

// Limits on what a run keeps.
const (
	MaxRunErrors   = 10       // newest are kept
	MaxErrorBytes  = 4 << 10  // of one message
	MaxResponse    = 4 << 10  // of an HTTP answer
	MaxRetainedRun = 64 << 10 // of a dead run's encoded record besides its payload

	MaxProgressMessage = 1 << 10 // bytes
)

// Cause says why a run exists.
type Cause uint8

// The causes.
const (
	CauseSchedule Cause = iota
	CauseTrigger
	CauseBackfill
)

// RunStatus is where a run stands.
type RunStatus uint8

// The statuses.
const (
	RunScheduled RunStatus = iota
	RunStaged
	RunRunning
	RunRetrying
	RunSucceeded
	RunFailed // exhausted and dropped
	RunDead   // exhausted and kept
	RunCancelled
	RunSkipped // did not run: see Reason
)

// Finished reports whether nothing more will happen to the run by itself.
func (s RunStatus) Finished() bool { return s >= RunSucceeded }

// Outcome is how an attempt ended.
type Outcome uint8

// The outcomes. An unknown outcome counts as a failure.
const (
	OutcomeFailure Outcome = iota
	OutcomeSuccess
	OutcomeProgress   // the attempt goes on: see Result.Progress; it extends the lease as a heartbeat does
	OutcomeReschedule // not done, and not failed: the same run is attempted again at Result.At, with fresh retries
)

// Result is a consumer's word on an attempt.
type Result struct {
	Token      string
	RunID      string
	Outcome    Outcome
	Message    string        // of a failure
	Permanent  bool          // a failure that must not be retried
	RetryAfter time.Duration // a failure's lower bound on the next attempt
	Response   []byte        // kept with the run, up to MaxResponse
	Progress   Progress      // of OutcomeProgress; its At is set by the node
	At         time.Time     // of OutcomeReschedule; past = at once
}

// Heartbeat says that an attempt is alive and extends its lease.
type Heartbeat struct {
	Token string
	RunID string
	// Confirm asks whether the attempt is still in force; WorkResponse.Confirmed or WorkResponse.Stale
	// answers.
	Confirm bool
}
