package carillon

import (
	"time"
	"unicode/utf8"
)

// Run is one occurrence of a job. A worker gets it with Data and Token; the history has its outcome.
type Run struct {
	ID        string // deterministic; equal on every attempt: the idempotency key
	Namespace string
	Job       string
	Cause     Cause
	Status    RunStatus
	Scheduled time.Time // the time that the schedule gives
	Due       time.Time // when this attempt was due: Scheduled plus jitter, or the retry's time
	Attempt   int       // from 1; 0: none yet
	Started   time.Time // start of this attempt
	Finished  time.Time // end of the run; zero: unfinished

	// Set on a delivery.
	Token    string        // proves that a result belongs to the attempt in force
	Queue    string        // the worker queue it came through
	Deadline time.Time     // end of the attempt's timeout
	Lease    time.Duration // how long the attempt lives without a heartbeat
	Data     Data
	Metadata map[string]string

	// Set on a finished run.
	Errors []AttemptError // newest last, at most 10; also set while it is unfinished and after a redrive
	// Response is the result of the run: what its last attempt returned or printed, or the beginning of an HTTP
	// target's answer. It is at most MaxResponse bytes, and nil with History.NoResults.
	Response []byte
	Worker   string  // the worker of the last attempt
	Reason   string  // why it did not run: "paused", "overlap", "misfire", "calendar", "expired", …
	Skipped  Skipped // the times that a record of skipped times stands for; zero for a run

	Progress *Progress // last report of the attempt in force; nil: none. It is lost with the node.
	Backfill string    // id of the backfill that made it; empty: none

	// Hold is why an unfinished run does not go on; nil while an attempt is in force.
	Hold *Hold

	// InDoubt is how many of its attempts may have been handed out, before the store knew of it, by a node
	// that ended without order. Such an attempt is made again under its number and token, so consumers may
	// have had it more than once.
	InDoubt int
}

// Skipped are scheduled times that did not run. One record of the history stands for all of them.
type Skipped struct {
	Times uint64    // how many, up to the record's Scheduled
	From  time.Time // the first
}

// Progress is a report of an attempt on how far it is.
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
	Redriven bool // the run died of this error, or after it, and has been redriven since
}

// Bounds on what a run keeps.
const (
	MaxRunErrors   = 10        // the newest are kept
	MaxErrorBytes  = 4 << 10   // of one message
	MaxErrorFilter = 512       // of RunQuery.Error
	MaxResponse    = 64 << 10  // of a result: longer answers and outputs are cut, longer Responses refused
	MaxRetainedRun = 128 << 10 // of a dead run's encoded record besides its payload

	MaxProgressMessage = 1 << 10 // bytes
)

// Cause tells why a run exists.
type Cause uint8

// The causes.
const (
	CauseSchedule Cause = iota
	CauseTrigger
	CauseBackfill
)

// RunStatus is the state of a run.
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
	OutcomeProgress   // the attempt goes on: see Result.Progress; extends the lease like a heartbeat
	OutcomeReschedule // neither done nor failed: attempted again at Result.At, with fresh retries
)

// Result is a consumer's report on an attempt.
type Result struct {
	Token      string
	RunID      string
	Outcome    Outcome
	Message    string        // of a failure
	Permanent  bool          // a failure that must not be retried
	RetryAfter time.Duration // for a failure, the least delay before the next attempt
	Response   []byte        // the run's result, at most MaxResponse bytes; kept if the attempt ends the run
	Progress   Progress      // for OutcomeProgress; the node sets its At
	At         time.Time     // for OutcomeReschedule; a past time means at once
}

// Heartbeat reports that an attempt is alive and extends its lease.
type Heartbeat struct {
	Token string
	RunID string
	// Confirm asks whether the attempt is still in force; the answer is in WorkResponse.Confirmed or
	// WorkResponse.Stale.
	Confirm bool
}

// Validate returns an error about the first wrong field, by its API name. Beside the size of the response it
// checks only what the outcome needs.
func (r *Result) Validate() error {
	if len(r.Response) > MaxResponse {
		return tooLarge("response", len(r.Response), MaxResponse)
	}
	switch r.Outcome {
	case OutcomeProgress:
		return renamedWithin("progress", r.Progress.Validate())
	case OutcomeReschedule:
		if r.At.IsZero() {
			return invalid("at", "it is missing; say when the run is to be attempted again")
		}
		return checkStorable("at", r.At)
	}
	return nil
}

// Validate returns an error about the first wrong field.
func (p *Progress) Validate() error {
	switch {
	case !(p.Percent >= 0 && p.Percent <= 100): // also when it is not a number
		return invalid("percent", "%v is not between 0 and 100", p.Percent)
	case len(p.Message) > MaxProgressMessage:
		return tooLarge("message", len(p.Message), MaxProgressMessage)
	case !utf8.ValidString(p.Message):
		return invalid("message", "it is not UTF-8")
	}
	return nil
}
