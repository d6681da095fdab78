package daprapi

import "time"

// Kind is what a job belongs to, as metrics call it.
type Kind string

// The kinds.
const (
	KindJob     Kind = "job"   // of an app
	KindActor   Kind = "actor" // a reminder
	KindUnknown Kind = "unknown"
)

// Metrics counts what Dapr's own scheduler counts. Its methods are called from many goroutines and must not
// wait.
type Metrics interface {
	JobMetrics
	SidecarMetrics
}

// JobMetrics counts what callers do with jobs.
type JobMetrics interface {
	Scheduled(k Kind)      // a job was stored
	ScheduleFailed(k Kind) // a job was refused, or could not be stored
	Deleted(k Kind)        // a job was deleted by name
	BulkDeleted()          // jobs were deleted by metadata or prefix, once for each call
}

// SidecarMetrics counts what sidecars do with runs.
type SidecarMetrics interface {
	Triggered(k Kind, took time.Duration)     // one reported success, so long after the run was handed over
	TriggerFailed(k Kind, took time.Duration) // one reported failure
	Undelivered(k Kind)                       // a stream ended while it held a run
	Sidecars(change int)                      // so many connected (+1) or left (-1)
	SidecarError(reason SidecarError)         // something went wrong between one and here
}

// SidecarError is what went wrong between a sidecar and here, as metrics call it.
type SidecarError string

// What goes wrong.
const (
	ErrorSend SidecarError = "send_failed"
	ErrorRecv SidecarError = "recv_failed"
	ErrorAuth SidecarError = "auth_failed"
)

// nobody counts nothing.
type nobody struct{}

func (nobody) Scheduled(Kind)                    {}
func (nobody) ScheduleFailed(Kind)               {}
func (nobody) Deleted(Kind)                      {}
func (nobody) BulkDeleted()                      {}
func (nobody) Triggered(Kind, time.Duration)     {}
func (nobody) TriggerFailed(Kind, time.Duration) {}
func (nobody) Undelivered(Kind)                  {}
func (nobody) Sidecars(int)                      {}
func (nobody) SidecarError(SidecarError)         {}
