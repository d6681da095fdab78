package daprmetrics

import "github.com/carillonhq/carillon/server/internal/telemetry"

// The names of the metrics, those of Dapr 1.18.
const (
	sidecars  = "dapr_scheduler_sidecars_connected"
	latency   = "dapr_scheduler_trigger_latency"
	inFlight  = "dapr_scheduler_concurrency_inflight"
	pending   = "dapr_scheduler_concurrency_pending"
	throttled = "dapr_scheduler_concurrency_throttled_total"
)

// The counters, for [Metrics.Count].
const (
	Created       = "dapr_scheduler_jobs_created_total"
	CreatedFailed = "dapr_scheduler_jobs_created_failed_total"
	Triggered     = "dapr_scheduler_jobs_triggered_total"
	Failed        = "dapr_scheduler_jobs_failed_total"
	Undelivered   = "dapr_scheduler_jobs_undelivered_total"
	Deleted       = "dapr_scheduler_jobs_deleted_total"
	BulkDeleted   = "dapr_scheduler_jobs_bulk_deleted_total"
	SidecarErrors = "dapr_scheduler_sidecar_errors_total"
)

var (
	ofKind  = []string{"type"}
	ofLimit = []string{"concurrency_key"}
)

// table is every metric of Dapr's scheduler, in the order of the documentation.
var table = []telemetry.Metric{
	{Name: sidecars, Type: "gauge", Help: "Streams of sidecars that take runs."},
	{Name: Created, Type: "counter", Labels: ofKind, Help: "Jobs scheduled, by type: job, actor."},
	{Name: CreatedFailed, Type: "counter", Labels: ofKind,
		Help: "Jobs that were not scheduled, such as those that exist already."},
	{Name: Triggered, Type: "counter", Labels: ofKind, Help: "Runs that a sidecar has reported a success."},
	{Name: Failed, Type: "counter", Labels: ofKind, Help: "Attempts that a sidecar has reported a failure."},
	{Name: Undelivered, Type: "counter", Labels: ofKind,
		Help: "Runs that found no sidecar, and attempts whose sidecar left; they are delivered later."},
	{Name: Deleted, Type: "counter", Labels: ofKind, Help: "Calls that delete one job."},
	{Name: BulkDeleted, Type: "counter", Help: "Calls that delete many jobs."},
	{Name: latency, Type: "histogram", Labels: ofKind,
		Help: "From when an attempt was handed to a sidecar to its result, in milliseconds."},
	{Name: SidecarErrors, Type: "counter", Labels: []string{"reason"},
		Help: "What went wrong with sidecars: send_failed, recv_failed, auth_failed."},
	{Name: inFlight, Type: "gauge", Labels: ofLimit,
		Help: "Attempts in force under a concurrency limit: TYPE, or TYPE:KEY."},
	{Name: pending, Type: "gauge", Labels: ofLimit, Help: "Due runs that wait for a concurrency limit."},
	{Name: throttled, Type: "counter", Labels: ofLimit,
		Help: "Runs that have had to wait for a concurrency limit."},
}

// Table is every metric of Dapr's scheduler, for the documentation.
func Table() []telemetry.Metric { return append([]telemetry.Metric(nil), table...) }

// metric finds a line of the table.
func metric(name string) telemetry.Metric {
	for _, m := range table {
		if m.Name == name {
			return m
		}
	}
	panic("daprmetrics: no metric " + name)
}
