package deliveries

import "time"

// History is the account that the system gives of itself when everything has healed and come to rest, and
// what was done to it.
type History struct {
	Runs    []Run
	Jobs    []Job   // that were put
	Live    []Live  // that are there at the end
	Touches []Touch `json:",omitempty"`
	Breaks  []Break `json:",omitempty"`
	Slack   Slack
}

// Run is a record of the history: a run, or a stretch of times that did not run.
type Run struct {
	ID        string
	Job       string
	Life      string // uid of the job
	Status    string // succeeded, failed, dead, cancelled, skipped; others are unfinished
	Reason    string `json:",omitempty"`
	Cause     string
	Scheduled time.Time
	From      time.Time `json:",omitzero"`  // the first of the Skipped
	Skipped   uint64    `json:",omitempty"` // times that it stands for; 0 on a run
	Attempt   int
	InDoubt   int            `json:",omitempty"` // attempts of owners that ended without order
	Errors    []AttemptError `json:",omitempty"` // the newest; at most Slack.Errors
	Finished  time.Time
}

// AttemptError is why an attempt failed.
type AttemptError struct {
	Attempt int
	At      time.Time
	Message string
}

// Job is what was asked for, as far as the rules go by it.
type Job struct {
	Name    string
	Acked   bool   // its put was
	Overlap string // serial (default), skip, allow, replace
	Repeats int
}

// Live is a job that is there at the end.
type Live struct {
	Job, Life                        string
	Fired, Succeeded, Dead, SkippedN uint64
}

// Touch is a call that changed a job after it was put first, or may have.
type Touch struct {
	Job      string
	From, To time.Time // To of an unknown outcome is the end
}

// Kill is the kind of a break at which a process was ended by force.
const Kill = "kill"

// Break is something that went wrong with the system.
type Break struct {
	Kind     string
	From, To time.Time
	Ends     bool   // a term may have ended without order: its attempts in flight may come again
	Holds    bool   // what receivers answered may have been kept on its way, and have gone on when it was over
	Node     string // that it was done to, if that is one: whoever held, or was killed; "" = a link, or several
}

// Slack is how exact the harness's times are, and what the system promises to remember.
type Slack struct {
	Wire     time.Duration // from what a process did to what others saw of it
	Lazy     time.Duration // age from which an attempt on a stream is surely durable
	Tick     time.Duration // in which a lease that has ended is noticed
	Recovery time.Duration // after a break, until everything is normal again
	Errors   int           // most that a run keeps
}
