package store

import "github.com/carillonhq/carillon"

// Record is a job or a pending run: its definition (Spec) and its progress (State). The spec is written once;
// the small state is what each step rewrites.
type Record struct {
	Ref
	Exists bool
	// Spec is a job as encoded by package codec. It is nil where a query left it out, and in a pending run
	// that uses its job's (a redriven one has its own).
	Spec  []byte
	State State
	// Kept is, in a put without Spec, the stored spec if the writer has it at hand: a store that keeps spec
	// and state together need not read it to write it again. Nil means nothing; other stores ignore it.
	Kept []byte
}

// State is what each step rewrites. Times are UTC nanoseconds since 1970; 0: none.
type State struct {
	UID        carillon.UID
	Generation uint64
	Created    int64
	Updated    int64 // by the last put or patch

	Phase     carillon.Phase
	Paused    bool   // begins no runs; not a Phase, because an unfinished run goes on
	Priority  uint8  // rank of dispatch: 0 critical … 3 low
	OwnSpec   bool   // of a pending run: the record has a spec, even where a query left it out
	Backfills uint32 // unfinished backfills of the job
	Due       int64  // the earliest time at which something can happen; the key of the due index
	Queue     string // of a staged record

	Anchor   int64  // first due time: the phase of @every, the first run of a one-shot
	Expires  int64  // end of life
	Next     int64  // next scheduled time
	Jitter   int64  // ns by which a run may be moved
	Begun    uint64 // runs begun by the schedule
	Triggers uint64 // sequence of the last trigger

	Pending uint32 // pending runs of the job that exist as records of their own
	Kept    uint32 // finished runs recorded since the last trim
	Waits   []Wait // for each name of DependsOn, in its order
	Settled uint64 // epoch; whether a term up to it handed out what comes next is not in doubt

	// Trace is the trace context of the call that the record's runs go back to: the put of the job, or the
	// trigger of a pending run. It has the form of a delivery.Trace; empty: none.
	Trace string
	// Payload is how many bytes of data the job has. 0 in what formats before 6 have written.
	Payload int64

	Run      RunState
	Last     LastRun
	Counters carillon.Counters
}

// Wait is what a job knows of one of the jobs in its DependsOn.
type Wait struct {
	Name string
	By   RunID // the newest success it was notified of; the same one again changes nothing
	Open bool  // no run has used it up yet
	// Told and ToldEpoch are the stamp of the newest notice of one: an older notice comes too late. ToldEpoch
	// is 0 in what formats before 5 have written; Told is of no use then.
	Told, ToldEpoch uint64
	// Since is when the job began to wait: it was put with the name, or a run used the success up. 0: not
	// known.
	Since int64
}

// RunState is the unfinished run of a record.
type RunState struct {
	Live    bool
	Limited bool // the attempt in force holds a permit of its job's concurrency key
	// Kept: the attempt in force stayed with its stream at a hand-over (Dapr's jobs); or no broker has
	// acknowledged it yet, and a consumer is to complete it.
	Kept      bool
	Cause     carillon.Cause
	InDoubt   int32 // attempts that have had a Doubt, with that one
	Scheduled int64
	Due       int64 // when the attempt in force, or the next one, was or is due
	Seq       uint64
	Attempt   int
	Grant     Grant // of the attempt in force, once it is durable
	Lease     int64 // its expiry
	Deadline  int64
	Started   int64 // first attempt
	Errors    []carillon.AttemptError

	// Doubt is the grant under which a term that ended without order may have handed out the attempt in force
	// or, if there is none, the next one. The attempt is made under that grant, so that a consumer that has
	// it already and one that gets it now have the same token.
	Doubt Grant

	Uncounted  int     // attempts that the failure policy does not count: those up to the last reschedule
	Percent    float64 // the last reported progress of the attempt in force
	Message    string  // of that progress; of a state that is encrypted, what codec.SealState makes of it
	ReportedAt int64   // when it was reported; 0: never
}

// Grant tells under which term and of which generation an attempt was handed out. Together with the run id
// and the attempt it is what a token is compared with.
type Grant struct {
	Term       Term
	Generation uint64
}

// LastRun sums up the last finished run of a job.
type LastRun struct {
	Scheduled int64
	Finished  int64
	Seq       uint64
	Attempt   int32
	Cause     carillon.Cause
	Status    carillon.RunStatus
	Failures  uint16 // runs in a row that ended failed or dead, this one included; at most 65,535
}

// Identity returns the unfinished run's identity in partition p.
func (s *State) Identity(p int) RunID {
	return RunID{Partition: uint16(p), UID: s.UID, Scheduled: s.Run.Scheduled,
		Cause: s.Run.Cause, Seq: s.Run.Seq}
}

// RunRecord is a finished run, or a stretch of scheduled times that did not run (Status RunSkipped).
type RunRecord struct {
	Key      carillon.Key
	ID       RunID
	Grant    Grant // of the last attempt
	Status   carillon.RunStatus
	Due      int64
	Started  int64
	Finished int64
	Expires  int64 // when retention ends; the key of the age index
	Attempt  int
	Errors   []carillon.AttemptError
	Response []byte
	Worker   string
	Reason   string
	Sealed   bool // Response is encrypted, with Reason and the messages of Errors
	Skipped  uint64
	From     int64
	InDoubt  int               // see RunState
	Trace    string            // of a dead run: see State
	Spec     []byte            // of a dead run: needed to redrive it
	Queue    string            // where it ran, or would have run, as in State; empty in runs of format 2
	Labels   map[string]string // of the job, as it was when the run ended; none in runs of format 2
	Cursor   []byte            // set by Runs: where to go on; not stored
}

// Backfill is a backfill of a job as a metadata record of its partition. It uses the schedule that the job
// had when it was started, whatever is put meanwhile. Times are UTC nanoseconds since 1970; 0: none.
type Backfill struct {
	Key carillon.Key
	UID carillon.UID // of the job
	Seq uint64       // tells the backfills of a job apart

	Schedule string
	TimeZone string
	DST      carillon.DST
	Anchor   int64 // what the schedule's times are counted from

	From    int64
	To      int64
	Overlap carillon.Overlap
	Rate    float64

	Status    carillon.BackfillStatus
	Total     uint64
	Begun     uint64
	Succeeded uint64
	Failed    uint64
	Next      int64    // the next scheduled time to be run
	Earliest  int64    // no run is made before this instant, because of Rate
	Open      []uint64 // Ref.Seq of its unfinished runs, in order
	Created   int64
	Finished  int64
	Expires   int64 // when the record of an ended backfill may go
}
