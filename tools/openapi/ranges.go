package main

import (
	"maps"
	"strings"
)

// What values the strings take that have a grammar of their own. A format is one that only people know, and
// testers that are told.
var (
	// A Go or ISO 8601 duration; empty is the default.
	span       = object{"format": "span", "pattern": `^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+|P.*[0-9].*)?$`}
	moment     = object{"format": "moment"}
	namespace  = object{"maxLength": 63, "pattern": "^[a-zA-Z0-9-]*$"}
	jobName    = object{"format": "job-name", "minLength": 1, "maxLength": 512, "pattern": nameText}
	cron       = object{"format": "schedule", "maxLength": 1024}
	zone       = object{"format": "time-zone"}
	retries    = object{"minimum": 0, "maximum": 1_000_000}
	page       = object{"minimum": 0, "maximum": 1000}
	limitKey   = object{"format": "printable", "maxLength": 256, "pattern": printable + "*$"}
	queueKind  = object{"enum": []any{"worker", "http", "dapr", "kafka", "amqp", "nats", "redis"}}
	queueName  = object{"format": "printable", "minLength": 1, "maxLength": 512, "pattern": printable + "+$"}
	brokerName = object{"minLength": 1, "maxLength": 63, "pattern": "^[a-zA-Z0-9._-]+$"}
	daprWord   = object{"format": "printable", "maxLength": 512, "pattern": printable + "*$"}
	// What lists are filtered by; empty is no filter.
	prefix = object{"format": "job-name", "maxLength": 512,
		"pattern": `^[^:\u0000-\u001f\u007f-\u009f]*$`}
	queueFilter = object{"format": "printable", "maxLength": 512, "pattern": printable + "*$"}
	kindFilter  = object{"enum": []any{"", "worker", "http", "dapr", "kafka", "amqp", "nats", "redis"}}
	billion     = object{"minimum": 0, "maximum": 1_000_000_000, "pattern": "^([0-9]{1,9}|1000000000)$"}
	pebibyte    = object{"minimum": 0, "maximum": 1 << 50, "pattern": "^([0-9]{1,15}|10[0-9]{14})$"}
	million     = object{"minimum": 0, "maximum": 1_000_000, "pattern": "^([0-9]{1,6}|1000000)$"}
	uint64s     = object{"pattern": "^[0-9]{1,19}$", "maxLength": 19}
	calendar    = object{"minLength": 1, "maxLength": 63, "pattern": "^[a-zA-Z0-9_.-]*[a-zA-Z0-9_-][a-zA-Z0-9_.-]*$"}
	payloadRef  = object{"format": "payload", "maxLength": 88,
		"pattern": "^([0-9]{4}-[0-9]{2}-[0-9]{2}/[0-9a-f]{64}/[1-9][0-9]*)?$"}
	calendars   = object{"maxItems": 16, "uniqueItems": true}
	auditFilter = object{"format": "printable", "maxLength": 1024, "pattern": printable + "*$"}
)

const (
	printable = `^[^\u0000-\u001f\u007f-\u009f]` // and whatever else Unicode says is not to be printed
	nameText  = `^[^:\u0000-\u001f\u007f-\u009f]+$`
)

// fieldRanges are the ranges of what is sent: of the fields of messages in bodies.
var fieldRanges = map[string]object{
	"AccessGrant.role":         {"enum": []any{"viewer", "worker", "producer", "operator", "admin"}},
	"AccessGrant.namespaces":   {"minItems": 1, "maxItems": 64},
	"AccessGrant.namespaces[]": {"maxLength": 64, "pattern": `^([a-zA-Z0-9-]+\*?|\*)$`},
	"AccessGrant.queues":       {"maxItems": 64},
	"AccessGrant.queues[]":     queueName,

	"Rate.count":             million,
	"Rate.period":            {"format": "rate-period", "pattern": span["pattern"]},
	"Rate.burst":             million,
	"Quotas.concurrent_runs": million,
	"Job.depends_on":         {"maxItems": 16, "uniqueItems": true},
	"Job.depends_on[]":       jobName,
	"Job.except":             calendars,
	"Job.except[]":           calendar,
	"Job.only":               calendars,
	"Job.only[]":             calendar,
	"Job.catch_up_limit":     {"minimum": 0, "maximum": 10_000},
	"Job.catch_up_window":    span,
	"Job.content_type":       {"format": "media-type", "maxLength": 256},
	"Job.due_time":           moment,
	"Job.labels": {"maxProperties": 64,
		"propertyNames": object{"format": "label-key", "minLength": 1, "maxLength": 128,
			"pattern": `^[^=\u0000-\u001f\u007f-\u009f]+$`}},
	"Job.labels{}":        {"format": "printable", "maxLength": 256, "pattern": printable + "*$"},
	"Job.lease":           span,
	"Job.concurrency_key": limitKey,
	"Job.metadata":        {"propertyNames": object{"minLength": 1}},
	"Job.name": {"format": "job-name", "maxLength": 512,
		"pattern": `^[^:\u0000-\u001f\u007f-\u009f]*$`},
	"Job.namespace":                 namespace,
	"Job.note":                      {"maxLength": 4096},
	"Job.payload":                   payloadRef,
	"Job.repeats":                   uint64s,
	"Job.schedule":                  cron,
	"Job.jitter":                    span,
	"Job.time_zone":                 zone,
	"Job.timeout":                   span,
	"Job.ttl":                       moment,
	"History.keep":                  span,
	"History.runs":                  {"minimum": -1, "maximum": 10_000},
	"FailurePolicy.pause_after":     {"minimum": 0, "maximum": 65_535},
	"ConstantPolicy.interval":       span,
	"ConstantPolicy.max_retries":    retries,
	"SchedulePolicy.cron":           {"format": "cron", "minLength": 1, "maxLength": 1024},
	"SchedulePolicy.max_retries":    retries,
	"ExponentialPolicy.factor":      {"minimum": 0},
	"ExponentialPolicy.initial":     span,
	"ExponentialPolicy.jitter":      span,
	"ExponentialPolicy.max":         span,
	"ExponentialPolicy.max_retries": retries,
	"WorkerTarget.queue":            queueName,
	"HttpTarget.url":                {"format": "http-url", "minLength": 1, "maxLength": 8192},
	"HttpTarget.method": {"enum": []any{"", "POST", "PUT", "PATCH", "DELETE", "GET",
		"HEAD", "OPTIONS"}},
	"HttpTarget.headers": {"propertyNames": object{"format": "header-name", "minLength": 1,
		"pattern": "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"}},
	"HttpTarget.headers{}":       {"pattern": `^[^\u0000-\u0008\u000a-\u001f\u007f]*$`},
	"KafkaTarget.cluster":        brokerName,
	"KafkaTarget.topic":          {"minLength": 1, "maxLength": 249, "pattern": "^[a-zA-Z0-9._-]+$", "format": "kafka-topic"},
	"KafkaTarget.key":            daprWord,
	"AmqpTarget.broker":          brokerName,
	"AmqpTarget.exchange":        {"format": "printable", "maxLength": 127, "pattern": `^([^/\u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*)?$`},
	"AmqpTarget.routing_key":     {"format": "printable", "maxLength": 255, "pattern": printable + "*$"},
	"NatsTarget.server":          brokerName,
	"NatsTarget.subject":         {"format": "nats-subject", "minLength": 1, "maxLength": 255, "pattern": printable + "+$"},
	"RedisTarget.server":         brokerName,
	"RedisTarget.stream":         {"format": "printable", "minLength": 1, "maxLength": 255, "pattern": printable + "+$"},
	"DaprTarget.app_id":          daprWord,
	"DaprTarget.actor_type":      daprWord,
	"DaprTarget.actor_id":        daprWord,
	"DaprTarget.concurrency_key": daprWord,
	"Webhook.name":               {"minLength": 1, "maxLength": 63, "pattern": "^[a-zA-Z0-9-]+$", "format": "webhook-name"},
	"Webhook.url":                {"format": "http-url", "maxLength": 8192},
	"Webhook.headers": {"propertyNames": object{"format": "header-name", "minLength": 1,
		"pattern": "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"}},
	"Webhook.headers{}":    {"pattern": `^[^\u0000-\u0008\u000a-\u001f\u007f]*$`},
	"Webhook.types":        {"minItems": 1, "maxItems": 17},
	"Webhook.types[]":      {"format": "event-types", "minLength": 1},
	"Webhook.prefix":       prefix,
	"Quotas.jobs":          billion,
	"Quotas.payload_bytes": pebibyte,
	"Progress.percent":     {"minimum": 0, "maximum": 100},
	"Progress.message":     {"maxLength": 1024},
}

// bodyRanges are the ranges of the fields of bodies that have no schema of their own, by call.
var bodyRanges = map[string]object{
	"BatchPutJobs.jobs":       {"maxItems": 1000},
	"PauseJob.note":           {"maxLength": 4096},
	"ResumeJob.note":          {"maxLength": 4096},
	"PauseQueue.note":         {"maxLength": 1024},
	"StartBackfill.rate":      {"minimum": 0, "maximum": 100_000},
	"TriggerJob.content_type": {"format": "media-type", "maxLength": 256},
	"TriggerJob.payload":      payloadRef,
	"TriggerJob.metadata":     {"propertyNames": object{"minLength": 1}},
	"PutNamespace.concurrency_limits": {"maxProperties": 10_000,
		"propertyNames": object{"format": "printable", "minLength": 1, "maxLength": 256,
			"pattern": printable + "+$"}},
	"PutNamespace.concurrency_limits{}": {"minimum": 0, "maximum": 1_000_000},
	"PutNamespace.webhooks":             {"maxItems": 8},
	"PutNamespace.rate_limits": {"maxProperties": 10_000,
		"propertyNames": object{"format": "printable", "minLength": 1, "maxLength": 256,
			"pattern": printable + "+$"}},
	"PutNamespace.unserved_after": {"format": "unserved-after", "pattern": span["pattern"]},
	"PutCalendar.time_zone":       zone,
	"PutCalendar.dates":           {"maxItems": 1000},
	"PutCalendar.dates[]":         {"format": "calendar-dates", "minLength": 5, "maxLength": 71},
	"PutCalendar.note":            {"maxLength": 4096},
	"CreateKey.grants":            {"minItems": 1, "maxItems": 16},
	"CreateKey.note":              {"format": "printable", "maxLength": 256, "pattern": printable + "*$"},
	"RotateKey.overlap":           {"format": "overlap-of-secrets", "pattern": span["pattern"]},
	"VerifyAudit.heads":           {"maxItems": 10_000},
	"VerifyAudit.heads[]":         {"format": "audit-head", "pattern": "^[^:]{1,128}:[1-9][0-9]{0,18}:[0-9a-fA-F]{64}$"},
	"PreviewSchedule.namespace":   namespace,
	"PreviewSchedule.except":      calendars,
	"PreviewSchedule.except[]":    calendar,
	"PreviewSchedule.only":        calendars,
	"PreviewSchedule.only[]":      calendar,
	"PreviewSchedule.schedule":    cron,
	"PreviewSchedule.time_zone":   zone,
	"PreviewSchedule.due_time":    moment,
	"PreviewSchedule.count":       {"minimum": 0, "maximum": 1000},
	"CompleteRun.retry_after":     span,
	"CompleteRun.token":           {"minLength": 1},
	"RedriveRuns.job":             {"format": "job-name", "maxLength": 512},
	"BulkRuns.job":                {"format": "job-name", "maxLength": 512},
	"BulkRuns.prefix":             prefix,
	"BulkRuns.queue":              queueFilter,
	"BulkRuns.kind":               kindFilter,
	"BulkRuns.label":              {"format": "printable"},
	"BulkRuns.error":              {"maxLength": 512},
	"BulkRuns.page_size":          page,
	"BulkRuns.page_token":         {"format": "page-token"},
	"BulkJobs.prefix":             prefix,
	"BulkJobs.label":              {"format": "printable"},
	"BulkJobs.note":               {"maxLength": 4096},
	"BulkJobs.page_size":          page,
	"BulkJobs.page_token":         {"format": "page-token"},
}

// parameterRanges are the ranges of parameters, by name, and by call where calls differ.
var parameterRanges = map[string]object{
	"ListTimes.count":       {"minimum": 0, "maximum": 1000},
	"namespace":             {"minLength": 1, "maxLength": 63, "pattern": "^[a-zA-Z0-9-]+$"},
	"GetNamespace.name":     {"minLength": 1, "maxLength": 63, "pattern": "^[a-zA-Z0-9-]+$"},
	"PutNamespace.name":     {"minLength": 1, "maxLength": 63, "pattern": "^[a-zA-Z0-9-]+$"},
	"name":                  jobName,
	"job":                   jobName,
	"id":                    {"format": "run-id"},
	"GetBackfill.id":        {"format": "backfill-id"},
	"CancelBackfill.id":     {"format": "backfill-id"},
	"DrainNode.id":          {"format": "node-name"},
	"page_size":             page,
	"page_token":            {"format": "page-token"},
	"ListJobs.prefix":       prefix,
	"ListRuns.prefix":       prefix,
	"Watch.prefix":          prefix,
	"WatchNamespace.prefix": prefix,
	"error":                 {"maxLength": 512},
	"from":                  {},
	"until":                 {},
	"PutCalendar.name":      calendar,
	"GetCalendar.name":      calendar,
	"DeleteCalendar.name":   calendar,
	"DeleteJobs.prefix":     {"format": "job-name", "minLength": 1, "maxLength": 512, "pattern": nameText},
	"ListQueues.namespace":  {"maxLength": 63, "pattern": "^[a-zA-Z0-9-]*$"},
	"ListWorkers.namespace": {"maxLength": 63, "pattern": "^[a-zA-Z0-9-]*$"},
	"ListIngests.namespace": {"maxLength": 63, "pattern": "^[a-zA-Z0-9-]*$"},
	"kind":                  kindFilter,
	"ListWorkers.kind":      {"enum": []any{"", "worker", "dapr"}},
	"queue":                 queueFilter,
	"label":                 {"format": "printable"},
	"PauseQueue.kind":       queueKind,
	"ResumeQueue.kind":      queueKind,
	"PurgeQueue.kind":       queueKind,
	"PauseQueue.name":       queueName,
	"ResumeQueue.name":      queueName,
	"PurgeQueue.name":       queueName,
	"Watch.namespace":       {"maxLength": 63, "pattern": "^[a-zA-Z0-9-]*$"},
	"types":                 {"format": "event-types"},
	"position":              {"format": "page-token"},
	"ListAudit.namespace":   {"maxLength": 63, "pattern": "^[a-zA-Z0-9-]*$"},
	"principal":             auditFilter,
	"action":                auditFilter,
	"outcome":               auditFilter,
	"since":                 {},
	"phase":                 {},
	"if_absent":             {},
	"if_generation":         uint64s,
}

// addRanges gives the fields of messages their ranges.
func (d *document) addRanges() {
	for field, r := range fieldRanges {
		message, name, _ := strings.Cut(field, ".")
		maps.Copy(fieldOf(must(d.schemas, message, "properties"), name), clone(r))
	}
}

// fieldOf is the schema of a field, of its elements if the name ends with [], of its values if it ends with
// {}.
func fieldOf(properties object, name string) object {
	if list, ok := strings.CutSuffix(name, "[]"); ok {
		return must(properties, list, "items")
	}
	if mapping, ok := strings.CutSuffix(name, "{}"); ok {
		return must(properties, mapping, "additionalProperties")
	}
	return must(properties, name)
}
