package daprmetrics

import "github.com/carillonhq/carillon/server/internal/telemetry"

// The names of the metrics, those of Dapr 1.18.
const (
	sidecars      = "dapr_scheduler_sidecars_connected"
	created       = "dapr_scheduler_jobs_created_total"
	createdFailed = "dapr_scheduler_jobs_created_failed_total"
	triggered     = "dapr_scheduler_jobs_triggered_total"
	failed        = "dapr_scheduler_jobs_failed_total"
	undelivered   = "dapr_scheduler_jobs_undelivered_total"
	deleted       = "dapr_scheduler_jobs_deleted_total"
	bulkDeleted   = "dapr_scheduler_jobs_bulk_deleted_total"
	latency       = "dapr_scheduler_trigger_latency"
	errorsOf      = "dapr_scheduler_sidecar_errors_total"
	inFlight      = "dapr_scheduler_concurrency_inflight"
	pending       = "dapr_scheduler_concurrency_pending"
	throttled     = "dapr_scheduler_concurrency_throttled_total"
)

var (
	ofKind = []string{"type"}
	ofGate = []string{"concurrency_key"}
)

// table is every metric of Dapr's scheduler, in the order of the documentation.
var table = []telemetry.Metric{
	{Name: sidecars, Type: "gauge", Help: "Streams of sidecars that take runs."},
	{Name: created, Type: "counter", Labels: ofKind, Help: "Jobs scheduled, by type: job, actor."},
	{Name: createdFailed, Type: "counter", Labels: ofKind,
		Help: "Jobs that were not scheduled, such as those that exist already."},
	{Name: triggered, Type: "counter", Labels: ofKind, Help: "Runs that a sidecar has reported a success."},
	{Name: failed, Type: "counter", Labels: ofKind, Help: "Attempts that a sidecar has reported a failure."},
	{Name: undelivered, Type: "counter", Labels: ofKind,
		Help: "Runs that found no sidecar, and attempts whose sidecar left; they are delivered later."},
	{Name: deleted, Type: "counter", Labels: ofKind, Help: "Calls that delete one job."},
	{Name: bulkDeleted, Type: "counter", Help: "Calls that delete many jobs."},
	{Name: latency, Type: "histogram", Labels: ofKind,
		Help: "From when an attempt was handed to a sidecar to its result, in milliseconds."},
	{Name: errorsOf, Type: "counter", Labels: []string{"reason"},
		Help: "What went wrong with sidecars: send_failed, recv_failed, auth_failed."},
	{Name: inFlight, Type: "gauge", Labels: ofGate,
		Help: "Attempts in force under a concurrency limit: TYPE, or TYPE:KEY."},
	{Name: pending, Type: "gauge", Labels: ofGate, Help: "Due runs that wait for a concurrency limit."},
	{Name: throttled, Type: "counter", Labels: ofGate,
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
