package telemetry

// Metric is one family of metrics.
type Metric struct {
	Name   string
	Type   string   // counter, gauge or histogram
	Labels []string // none for most
	Help   string
}

// The names of the metrics.
const (
	jobsScheduled = "carillon_jobs_scheduled_total"

	runsFired     = "carillon_runs_fired_total"
	attempts      = "carillon_attempts_total"
	runsSucceeded = "carillon_runs_succeeded_total"
	runsFailed    = "carillon_runs_failed_total"
	runsDead      = "carillon_runs_dead_total"
	runsCancelled = "carillon_runs_cancelled_total"
	runsRetried   = "carillon_runs_retried_total"
	runsSkipped   = "carillon_runs_skipped_total"
	quotaRefusals = "carillon_quota_refusals_total"
	runsStaged    = "carillon_runs_staged_total"
	runOutcomes   = "carillon_run_outcomes_total"
	runSeconds    = "carillon_run_seconds"
	lateness      = "carillon_lateness_seconds"
	inFlight      = "carillon_runs_in_flight"
	stagedRuns    = "carillon_staged_runs"
	deadRuns      = "carillon_dead_runs"
	limitHeld     = "carillon_limit_held"
	limitOf       = "carillon_limit_of"
	rateWaiting   = "carillon_rate_waiting"
	rateLeft      = "carillon_rate_left"
	rateBurst     = "carillon_rate_burst"
	missingJobs   = "carillon_missing_jobs"
	jobsByPhase   = "carillon_jobs"
	backfills     = "carillon_backfills"

	apiCalls   = "carillon_api_calls_total"
	apiSeconds = "carillon_api_call_seconds"

	commits        = "carillon_commit_seconds"
	commitRecords  = "carillon_commit_records"
	commitFailures = "carillon_commit_failures_total"
	storeWritable  = "carillon_store_writable"
	storeAway      = "carillon_store_away_seconds"
	storeDamaged   = "carillon_store_damaged_tables"
	storeRequests  = "carillon_store_requests_total"

	residentJobs    = "carillon_resident_jobs"
	windowBytes     = "carillon_window_bytes"
	partitionsAll   = "carillon_partitions"
	partitionsOwned = "carillon_partitions_owned"

	clusterMembers      = "carillon_cluster_members"
	clusterUnfit        = "carillon_cluster_unfit"
	clusterRefused      = "carillon_cluster_partitions_refused"
	clusterSkew         = "carillon_cluster_skew_seconds"
	clusterJoinFailures = "carillon_cluster_join_failures_total"
	clusterClaims       = "carillon_cluster_claim_seconds"
	clusterHandOvers    = "carillon_cluster_hand_over_seconds"
	clusterLost         = "carillon_cluster_partitions_lost_total"
	clusterDropped      = "carillon_cluster_words_dropped_total"
	clusterForwarded    = "carillon_cluster_forwarded_seconds"
	clusterAgain        = "carillon_cluster_calls_again_total"

	workers         = "carillon_workers"
	queues          = "carillon_queues"
	unservedQueues  = "carillon_unserved_queues"
	queueDepth      = "carillon_queue_depth"
	queuePermits    = "carillon_queue_permits_awaited"
	queueStaged     = "carillon_queue_staged"
	queueOldest     = "carillon_queue_oldest_seconds"
	queueConsumers  = "carillon_queue_consumers"
	queueSilent     = "carillon_queue_silent_consumers"
	queueCredits    = "carillon_queue_credits"
	queueInFlight   = "carillon_queue_in_flight"
	queuePartitions = "carillon_queue_waiting_partitions"
	queuePaused     = "carillon_queue_paused"

	traceSpans = "carillon_trace_spans_total"

	payloadPuts        = "carillon_payload_puts_total"
	payloadBytes       = "carillon_payload_put_bytes_total"
	payloadGets        = "carillon_payload_gets_total"
	payloadCollections = "carillon_payload_collections_total"
	payloadsCollected  = "carillon_payloads_collected_total"

	webhookEvents  = "carillon_webhook_events_total"
	webhookRefused = "carillon_webhook_events_refused_total"
	webhookGaps    = "carillon_webhook_gaps_total"

	outboxDone      = "carillon_outbox_commands_total"
	outboxRejected  = "carillon_outbox_rejected_total"
	outboxConnected = "carillon_outbox_connected"
	outboxReading   = "carillon_outbox_reading"
	outboxWaiting   = "carillon_outbox_waiting"
	outboxOldest    = "carillon_outbox_oldest_seconds"

	ingestMessages  = "carillon_ingest_messages_total"
	ingestConnected = "carillon_ingest_connected"
	ingestLag       = "carillon_ingest_lag"

	buildInfo = "carillon_build_info"
)

// Types of metrics.
const (
	counter   = "counter"
	gauge     = "gauge"
	histogram = "histogram"
)

var ofQueue, ofLimit = []string{"namespace", "kind", "queue"}, []string{"namespace", "key"}

var (
	ofOutbox = []string{"outbox"}
	ofIngest = []string{"ingest", "topic"}
)

// table is every metric of Carillon's own. Those of the Go runtime and of the process (go_*, process_*) come
// besides.
var table = []Metric{
	{jobsScheduled, counter, nil, "Jobs put, changed or not."},

	{runsFired, counter, nil, "Runs begun: first attempts handed to a consumer."},
	{attempts, counter, []string{"kind"}, "Attempts handed to a consumer, retries included, by kind of target."},
	{runsSucceeded, counter, nil, "Runs that succeeded."},
	{runsFailed, counter, nil, "Runs that ran out of attempts and were dropped."},
	{runsDead, counter, nil, "Runs that ran out of attempts and are kept as dead."},
	{runsCancelled, counter, nil, "Runs cancelled, by a caller or because their job was deleted or changed."},
	{runsRetried, counter, nil, "Retries handed to a consumer: attempts after a run's first, but for the first after a reschedule or a redrive."},
	{runsSkipped, counter, []string{"reason"}, "Scheduled times that did not run, by reason."},
	{quotaRefusals, counter, []string{"namespace", "quota"},
		"Changes of jobs that a quota of their namespace refused: `jobs`, `payload_bytes` or `puts`; `_other` is all namespaces but the first 200."},
	{runsStaged, counter, []string{"kind"},
		"Due runs put aside in the store because nobody took them, by kind of target."},
	{runOutcomes, counter, append([]string{"outcome"}, ofQueue...),
		"Runs that ended, by outcome (`succeeded`, `failed`, `dead`, `cancelled`) and queue; `_other` is for all queues but the first 200."},
	{runSeconds, histogram, ofQueue,
		"From when a run was first handed to a consumer to its outcome, retries and the waits before them included; queues as with the outcomes."},
	{lateness, histogram, nil, "From when an attempt was due, or its job was put or changed if that was later, to when it was handed to a consumer."},
	{inFlight, gauge, nil, "Attempts in force."},
	{stagedRuns, gauge, nil, "Due runs in the store, of the node's partitions; counted every 10 s or less often, and at a queue's first and last."},
	{deadRuns, gauge, []string{"namespace"},
		"Dead runs that are kept, of the node's partitions; counted as staged runs are."},
	{limitHeld, gauge, ofLimit,
		"Permits of a concurrency key that are handed out, at the node that counts them; `_other` sums up all keys but the first 200."},
	{limitOf, gauge, ofLimit, "Permits that the key has, its limit; keys as with those that are handed out."},
	{rateWaiting, gauge, ofLimit,
		"Due runs in memory that a rate holds back; without a key that is the quota `runs` of the namespace; `_other` has all but the first 200."},
	{rateLeft, gauge, ofLimit,
		"Attempts that may begin at once under a rate, at the node that counts them; 0 while it holds runs back. Keys as with those that wait."},
	{rateBurst, gauge, ofLimit, "The most attempts that can be left of the rate, its burst; keys as with those that wait."},
	{missingJobs, gauge, nil,
		"Waits (`depends_on`) for jobs that do not exist, a job and a name once, of the node's partitions; about a minute old."},
	{jobsByPhase, gauge, []string{"phase"},
		"Jobs of the node's partitions by phase, as in the store; counted every 10 s or less often, the scheduled ones every minute or less often."},
	{backfills, gauge, nil, "Backfills that have not ended, of the node's partitions."},

	{apiCalls, counter, []string{"api", "method", "code"},
		"Calls that ended, by API (`grpc`, `rest`, `dapr`), method and gRPC's code; streams count when they end."},
	{apiSeconds, histogram, []string{"api", "method"}, "How long calls took, but for streams."},

	{commits, histogram, nil, "How long a batch took to become durable."},
	{commitRecords, histogram, nil, "Records, deletions and finished runs in a batch."},
	{commitFailures, counter, nil, "Batches that did not, or may not, have become durable."},
	{storeWritable, gauge, nil, "1 while the store takes writes, 0 while it cannot; /readyz says why."},
	{storeAway, gauge, nil, "For how long the store has not taken writes, or not answered; 0 while it does."},
	{storeDamaged, gauge, nil, "Tables of the embedded store that were found to be damaged since the start: what stood there is lost."},
	{storeRequests, counter, []string{"kind"},
		"Requests to the bucket of the store, which cost money: `read`, and `write`, which lists and deletes as well; of other stores none."},

	{residentJobs, gauge, nil, "Jobs and waiting runs in memory: the window, and what is being worked on."},
	{windowBytes, gauge, nil, "Bytes of their specs."},
	{partitionsAll, gauge, nil, "Partitions of the store."},
	{partitionsOwned, gauge, nil, "Partitions that this node owns."},

	{clusterMembers, gauge, nil, "Nodes of the cluster that live, as this one sees it; 1 if it is alone."},
	{clusterUnfit, gauge, nil, "1 while this node has not proven that it can claim partitions and commit, or fails to: others own its share."},
	{clusterRefused, gauge, nil, "Partitions of its share that this node fails to serve and has left to others for a while."},
	{clusterSkew, gauge, nil, "How far the node's clock is ahead of the store's. More than 1 s either way, and the node owns nothing."},
	{clusterJoinFailures, counter, nil, "Times that the node could not tell the store that it lives."},
	{clusterClaims, histogram, nil, "How long it took to claim and load a partition that the node was told to own."},
	{clusterHandOvers, histogram, nil, "How long it took to hand a partition over: until all that memory held of it was durable."},
	{clusterLost, counter, nil, "Partitions that another node took, or whose lease was not renewed in time; writes of the old owner are fenced."},
	{clusterDropped, counter, nil, "What consumers said for a partition's new owner and was dropped: refused for good, or nobody was there to hear."},
	{clusterForwarded, histogram, nil, "How long calls took that the owner of the partition, another node, was asked to do."},
	{clusterAgain, counter, nil, "Calls that did not find the owner of their partition and were tried again."},

	{workers, gauge, nil, "Workers connected."},
	{queues, gauge, nil, "Queues with consumers or due runs that wait, or paused. At most 1,000 are shown one by one, those with such runs first."},
	{unservedQueues, gauge, nil, "Queues of workers and of Dapr, not paused, in which due runs wait and that nobody serves here who can be heard."},
	{queueDepth, gauge, ofQueue, "Due runs in memory that wait for a consumer or for room."},
	{queuePermits, gauge, ofQueue, "Due runs in memory that wait for a permit of a limit."},
	{queueStaged, gauge, ofQueue, "Due runs that wait in the store, for a consumer, for room or for a permit; counted as all staged runs are."},
	{queueOldest, gauge, ofQueue, "How long the oldest of the runs that wait, in memory or in the store, has been due."},
	{queueConsumers, gauge, ofQueue, "Consumers of the queue."},
	{queueSilent, gauge, ofQueue, "Those of them that get nothing, because a lease or a timeout ended without a word from them."},
	{queueCredits, gauge, ofQueue, "Attempts that its consumers would take now."},
	{queueInFlight, gauge, ofQueue, "Attempts that its consumers have."},
	{queuePartitions, gauge, ofQueue, "Partitions that wait for room in it."},
	{queuePaused, gauge, ofQueue, "1 while the queue is paused, as this node knows; otherwise 0."},

	{payloadPuts, counter, []string{"outcome"},
		"Payloads that were to be stored apart: `done`, `unavailable` (the payload store did not take it) or `refused` (too large, empty, cut off)."},
	{payloadBytes, counter, nil, "Bytes of payloads that were stored apart."},
	{payloadGets, counter, []string{"outcome"},
		"Payloads that were to be read: `done`, `unavailable` (the run is put off), `missing` or `damaged` (the attempt fails)."},
	{payloadCollections, counter, []string{"outcome"}, "Collections of unused payloads: `done`, or `unavailable`, which did not come to its end."},
	{payloadsCollected, counter, nil, "Payloads that collections have removed."},

	{webhookEvents, counter, nil, "Events for which a job was put that sends them to a webhook, by the node in charge."},
	{webhookRefused, counter, nil, "Events for which no such job could be put."},
	{webhookGaps, counter, nil,
		"Times that events may be missing that webhooks have asked for: they were deleted before they were sent, or damaged."},
	{traceSpans, counter, []string{"outcome"},
		"Spans that are recorded, by what became of them: `exported`, `failed` (at the collector) or `dropped` (too many waited)."},

	{outboxDone, counter, ofOutbox, "Commands of an outbox that this node has done, or found done."},
	{outboxRejected, counter, ofOutbox, "Commands of an outbox that were refused, and are kept as rejects."},
	{outboxConnected, gauge, ofOutbox, "1 if this node reads the outbox or stands by, 0 if it does not reach it."},
	{outboxReading, gauge, ofOutbox, "1 if this node reads the outbox: one node of a cluster does."},
	{outboxWaiting, gauge, ofOutbox,
		"Commands that wait in an outbox, at the node that reads it; counted every 5 s, up to 100,000."},
	{outboxOldest, gauge, ofOutbox, "How long the first command that waits in an outbox has waited, as of that count."},

	{ingestMessages, counter, []string{"ingest", "topic", "outcome"},
		"Messages of topics: `done`, `repeated` (its change was made before), `dead` (in the dead-letter topic); and tries in vain: `retried`."},
	{ingestConnected, gauge, ofIngest, "1 if messages can be taken; 0 before the broker was reached, and while it is away."},
	{ingestLag, gauge, ofIngest,
		"Messages of the topic that are not acknowledged; of a topic whose partitions are shared out those of this node."},

	{buildInfo, gauge, []string{"version", "go"}, "1; the labels say what runs."},
}

// Table is every metric of Carillon's own, for the documentation.
func Table() []Metric { return append([]Metric(nil), table...) }

// metric finds a line of the table.
func metric(name string) Metric {
	for _, m := range table {
		if m.Name == name {
			return m
		}
	}
	panic("telemetry: no metric " + name)
}
