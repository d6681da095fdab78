package daprapi

import (
	"time"

	"github.com/carillonhq/carillon/server/internal/daprapi/daprmetrics"
)

// Metrics counts what Dapr's own scheduler counts. Its methods are called from many goroutines and must not
// wait.
type Metrics interface {
	JobMetrics
	SidecarMetrics
}

// JobMetrics counts what callers do with jobs.
type JobMetrics interface {
	Scheduled(k daprmetrics.Kind)      // a job was stored
	ScheduleFailed(k daprmetrics.Kind) // a job was refused, or could not be stored
	Deleted(k daprmetrics.Kind)        // a job was deleted by name
	BulkDeleted()                      // jobs were deleted by metadata or prefix, once for each call
}

// SidecarMetrics counts what sidecars do with runs.
type SidecarMetrics interface {
	// one reported success, so long after the run was handed over
	Triggered(k daprmetrics.Kind, took time.Duration)
	TriggerFailed(k daprmetrics.Kind, took time.Duration) // one reported failure
	Undelivered(k daprmetrics.Kind)                       // a stream ended while it held a run
	Sidecars(change int)                                  // so many connected (+1) or left (-1)
	SidecarError(reason daprmetrics.SidecarError)         // something went wrong between one and here
}

// nobody counts nothing.
type nobody struct{}

func (nobody) Scheduled(daprmetrics.Kind)                    {}
func (nobody) ScheduleFailed(daprmetrics.Kind)               {}
func (nobody) Deleted(daprmetrics.Kind)                      {}
func (nobody) BulkDeleted()                                  {}
func (nobody) Triggered(daprmetrics.Kind, time.Duration)     {}
func (nobody) TriggerFailed(daprmetrics.Kind, time.Duration) {}
func (nobody) Undelivered(daprmetrics.Kind)                  {}
func (nobody) Sidecars(int)                                  {}
func (nobody) SidecarError(daprmetrics.SidecarError)         {}
