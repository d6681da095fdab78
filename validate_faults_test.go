package carillon_test

import (
	"math"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
)

// fault is one change that makes a valid job invalid.
type fault struct {
	name   string
	field  string // that the error must name
	says   string // part of the message
	change func(*carillon.Job)
}

// faults has every field of a job wrong in turn, in the order of docs/concepts.md.
var faults = append(append(append(fieldFaults, ruleFaults...), targetFaults...), policyFaults...)

var fieldFaults = []fault{
	{"namespace upper case", "namespace", "a-z, 0-9 and -", func(j *carillon.Job) { j.Namespace = "Acme" }},
	{"namespace too long", "namespace", "64 bytes are more than 63", func(j *carillon.Job) { j.Namespace = strings.Repeat("a", 64) }},
	{"name too long", "name", "513 bytes are more than 512", func(j *carillon.Job) { j.Name = strings.Repeat("a", 513) }},
	{"name with a colon", "name", `":"`, func(j *carillon.Job) { j.Name = "a:b" }},
	{"name not UTF-8", "name", "not printable", func(j *carillon.Job) { j.Name = "a\xff" }},
	{"name with a control character", "name", "not printable", func(j *carillon.Job) { j.Name = "a\nb" }},
	{"name with an invisible character", "name", "not printable", func(j *carillon.Job) { j.Name = "a\u200bb" }},
	{"name with a leading slash", "name", "empty level", func(j *carillon.Job) { j.Name = "/a" }},
	{"name with a trailing slash", "name", "empty level", func(j *carillon.Job) { j.Name = "a/" }},
	{"name with an empty level", "name", "empty level", func(j *carillon.Job) { j.Name = "a//b" }},
	{"name of a dot", "name", `level "."`, func(j *carillon.Job) { j.Name = "." }},
	{"name with a level of a dot", "name", `level "."`, func(j *carillon.Job) { j.Name = "a/./b" }},
	{"name that leads upwards", "name", `level ".."`, func(j *carillon.Job) { j.Name = "a/.." }},
	{"name of a slash", "name", "empty level", func(j *carillon.Job) { j.Name = "/" }},

	{"schedule that is none", "schedule", "position 0", func(j *carillon.Job) { j.Schedule = "whenever" }},
	{"schedule out of range", "schedule", "minute at position 2", func(j *carillon.Job) { j.Schedule = "0 61 * * * *" }},
	{"schedule that never fires", "schedule", "never fires", func(j *carillon.Job) { j.Schedule = "0 0 0 30 2 *" }},
	{"schedule of a zone alone", "schedule", "time zone alone", func(j *carillon.Job) { j.Schedule = "TZ=UTC" }},
	{"schedule too long", "schedule", "1025 bytes", func(j *carillon.Job) { j.Schedule = "@every 1s" + strings.Repeat(" ", 1016) }},
	{"time_zone unknown", "time_zone", "Europe/London", func(j *carillon.Job) { j.TimeZone = "Mars/Olympus" }},
	{"time_zone of the machine", "time_zone", "node to node", func(j *carillon.Job) { j.TimeZone = "Local" }},
	{"time_zone that is a path", "time_zone", "unknown", func(j *carillon.Job) { j.TimeZone = "../../etc/passwd" }},
	{"dst", "dst", "safe, literal", func(j *carillon.Job) { j.DST = 2 }},
	{"due_time", "due_time", "soon", func(j *carillon.Job) { j.Due = carillon.WhenText("soon") }},
	{"due_time negative", "due_time", "negative", func(j *carillon.Job) { j.Due = carillon.In(-time.Second) }},
	{"due_time that is the zero time", "due_time", "is not between 1970-", func(j *carillon.Job) { j.Due = carillon.At(time.Time{}) }},
	{"due_time too far", "due_time", "is not between 1970-", func(j *carillon.Job) { j.Due = carillon.WhenText("2263-01-01T00:00:00Z") }},
	{"repeats without a schedule", "repeats", "schedule", func(j *carillon.Job) { j.Schedule, j.Repeats = "", 1 }},
	{"ttl", "ttl", "30 days", func(j *carillon.Job) { j.TTL = carillon.WhenText("30 days") }},
	{"ttl before due_time", "ttl", "before its first run", func(j *carillon.Job) {
		j.Due, j.TTL = carillon.WhenText("2030-01-02T00:00:00Z"), carillon.WhenText("2030-01-01T00:00:00Z")
	}},
	{"jitter negative", "jitter", "negative", func(j *carillon.Job) { j.Jitter = -1 }},
	{"jitter too long", "jitter", "longer than", func(j *carillon.Job) { j.Jitter = carillon.MaxSpan + 1 }},
	{"jitter over the interval", "jitter", "interval, 10s", func(j *carillon.Job) { j.Schedule, j.Jitter = "@every 10s", 11*time.Second }},

	{"data that is no JSON", "data", "JSON", func(j *carillon.Job) { j.Data = carillon.JSON(make(chan int)) }},
	{"data too large", "data", "1048577 bytes", func(j *carillon.Job) { j.Data = carillon.Bytes(make([]byte, 1<<20+1), "") }},
	{"content_type", "content_type", "media type", func(j *carillon.Job) { j.Data.ContentType = "json" }},
	{"content_type with a line break", "content_type", "media type", func(j *carillon.Job) { j.Data.ContentType = "a/b\r\nX: y" }},
	{"content_type too long", "content_type", "more than 256", func(j *carillon.Job) { j.Data.ContentType = "a/" + strings.Repeat("b", 255) }},
	{"metadata with an empty key", "metadata", "empty", func(j *carillon.Job) { j.Metadata = map[string]string{"": "x"} }},
	{"metadata key not UTF-8", "metadata", "UTF-8", func(j *carillon.Job) { j.Metadata = map[string]string{"\xff": "x"} }},
	{"metadata value not UTF-8", "metadata", `"k"`, func(j *carillon.Job) { j.Metadata = map[string]string{"k": "\xff"} }},
	{"metadata too large", "metadata", "65537 bytes", func(j *carillon.Job) { j.Metadata = map[string]string{"k": strings.Repeat("x", 64<<10)} }},
	{"labels too many", "labels", "65 labels", func(j *carillon.Job) { j.Labels = many(65) }},
	{"labels with an empty key", "labels", "empty", func(j *carillon.Job) { j.Labels = with(j.Labels, "", "x") }},
	{"labels with = in a key", "labels", `"="`, func(j *carillon.Job) { j.Labels = with(j.Labels, "a=b", "x") }},
	{"labels key too long", "labels", "129 bytes", func(j *carillon.Job) { j.Labels = with(j.Labels, strings.Repeat("k", 129), "x") }},
	{"labels value too long", "labels", "257 bytes", func(j *carillon.Job) { j.Labels = with(j.Labels, "k", strings.Repeat("x", 257)) }},
	{"labels value with a line break", "labels", "not printable", func(j *carillon.Job) { j.Labels = with(j.Labels, "k", "a\nb") }},
}

var ruleFaults = []fault{
	{"timeout negative", "timeout", "negative", func(j *carillon.Job) { j.Timeout = -time.Second }},
	{"timeout too short", "timeout", "shorter than 1ms", func(j *carillon.Job) { j.Timeout = time.Microsecond }},
	{"timeout too long", "timeout", "longer than 168h", func(j *carillon.Job) { j.Timeout = 169 * time.Hour }},
	{"lease negative", "lease", "negative", func(j *carillon.Job) { j.Lease = -time.Second }},
	{"lease too short", "lease", "shorter than 1s", func(j *carillon.Job) { j.Lease = time.Second - 1 }},
	{"lease too long", "lease", "longer than 168h", func(j *carillon.Job) { j.Lease = 169 * time.Hour }},
	{"lease for http", "lease", "leave it out for http", func(j *carillon.Job) { j.Target = carillon.HTTP("http://a/") }},
	{"overlap unknown", "overlap", "serial, skip, allow, replace", func(j *carillon.Job) { j.Overlap = 4 }},
	{"misfire unknown", "misfire", "latest, all, skip", func(j *carillon.Job) { j.Misfire = 3 }},
	{"catch_up_limit negative", "catch_up_limit", "0-10000", func(j *carillon.Job) { j.CatchUpLimit = -1 }},
	{"catch_up_limit too high", "catch_up_limit", "0-10000", func(j *carillon.Job) { j.CatchUpLimit = 10_001 }},
	{"catch_up_window negative", "catch_up_window", "negative", func(j *carillon.Job) { j.CatchUpWindow = -1 }},
	{"catch_up_window too long", "catch_up_window", "longer than", func(j *carillon.Job) { j.CatchUpWindow = math.MaxInt64 }},
	{"priority unknown", "priority", "normal, critical, high, low", func(j *carillon.Job) { j.Priority = 4 }},
	{"concurrency_key", "concurrency_key", "not printable", func(j *carillon.Job) { j.ConcurrencyKey = "lic\nence" }},
	{"depends on itself", "depends_on[1]", "wait for itself", func(j *carillon.Job) { j.Name, j.DependsOn = "me", []string{"other", "me"} }},
	{"depends on one twice", "depends_on[1]", "named twice", func(j *carillon.Job) { j.DependsOn = []string{"other", "other"} }},
	{"depends on a wrong name", "depends_on[0]", "empty level", func(j *carillon.Job) { j.DependsOn = []string{"a//b"} }},
	{"depends on too many", "depends_on", "more than 16", func(j *carillon.Job) { j.DependsOn = make([]string, 17) }},
	{"note too long", "note", "4097 bytes", func(j *carillon.Job) { j.Note = strings.Repeat("x", 4097) }},
	{"note not UTF-8", "note", "UTF-8", func(j *carillon.Job) { j.Note = "\xff" }},
	{"history.runs too low", "history.runs", "-1-10000", func(j *carillon.Job) { j.History.Runs = -2 }},
	{"history.runs too high", "history.runs", "-1-10000", func(j *carillon.Job) { j.History.Runs = 10_001 }},
	{"history.keep negative", "history.keep", "negative", func(j *carillon.Job) { j.History.Keep = -1 }},
	{"history.keep too long", "history.keep", "longer than", func(j *carillon.Job) { j.History.Keep = math.MaxInt64 }},
}

var targetFaults = []fault{
	{"no target", "target", "missing", func(j *carillon.Job) { j.Target = carillon.Target{} }},
	{"two targets", "target", "there are 2", func(j *carillon.Job) { j.Target.HTTP = &carillon.HTTPTarget{URL: "http://a/"} }},
	{"kafka", "target.kafka", "not supported yet", func(j *carillon.Job) { j.Target = carillon.Target{Kafka: &carillon.KafkaTarget{}} }},
	{"amqp", "target.amqp", "not supported yet", func(j *carillon.Job) { j.Target = carillon.Target{AMQP: &carillon.AMQPTarget{}} }},
	{"nats", "target.nats", "not supported yet", func(j *carillon.Job) { j.Target = carillon.Target{NATS: &carillon.NATSTarget{}} }},
	{"redis", "target.redis", "not supported yet", func(j *carillon.Job) { j.Target = carillon.Target{Redis: &carillon.RedisTarget{}} }},
	{"exec", "target.exec", "not supported yet", func(j *carillon.Job) { j.Target = carillon.Target{Exec: &carillon.ExecTarget{}} }},
	{"no queue", "target.worker.queue", "missing", func(j *carillon.Job) { j.Target = carillon.WorkerQueue("") }},
	{"queue too long", "target.worker.queue", "513 bytes", func(j *carillon.Job) { j.Target = carillon.WorkerQueue(strings.Repeat("q", 513)) }},
	{"queue with a line break", "target.worker.queue", "not printable", func(j *carillon.Job) { j.Target = carillon.WorkerQueue("a\nb") }},

	{"no url", "target.http.url", "missing", func(j *carillon.Job) { j.Target, j.Lease = carillon.HTTP(""), 0 }},
	{"url that is none", "target.http.url", "not a URL", withURL("http://a b/")},
	{"url without a scheme", "target.http.url", "begin with http://", withURL("example.com/run")},
	{"url that is a path", "target.http.url", "begin with http://", withURL("/run")},
	{"url of another scheme", "target.http.url", "begin with http://", withURL("ftp://example.com/")},
	{"url without a host", "target.http.url", "no host", withURL("http:///run")},
	{"url that is opaque", "target.http.url", "no host", withURL("http:run")},
	{"url with a port but no host", "target.http.url", "no host", withURL("http://:80/")},
	{"url with a bad port", "target.http.url", "port", withURL("http://example.com:65536/")},
	{"url with port 0", "target.http.url", "port", withURL("http://example.com:0/")},
	{"url with an empty port", "target.http.url", "port", withURL("http://example.com:/")},
	{"url with a password", "target.http.url", "user name", withURL("https://me:secret@example.com/")},
	{"url with a fragment", "target.http.url", "fragment", withURL("https://example.com/#top")},
	{"url with an empty fragment", "target.http.url", "fragment", withURL("https://example.com/#")},
	{"url not UTF-8", "target.http.url", "not a URL", withURL("http://example.com/\xff")},
	{"url too long", "target.http.url", "more than 8192", withURL("http://example.com/" + strings.Repeat("x", 8192))},
	{"method in lower case", "target.http.method", "POST, PUT", func(j *carillon.Job) { withHTTP(j, carillon.HTTPTarget{Method: "post"}) }},
	{"method not allowed", "target.http.method", "POST, PUT", func(j *carillon.Job) { withHTTP(j, carillon.HTTPTarget{Method: "CONNECT"}) }},
	{"method that is two", "target.http.method", "POST, PUT", func(j *carillon.Job) { withHTTP(j, carillon.HTTPTarget{Method: "GET /x HTTP/1.1\r\n"}) }},
	{"header without a name", "target.http.headers", "not a header's name", withHeader("", "x")},
	{"header with a bad name", "target.http.headers", "not a header's name", withHeader("X A", "x")},
	{"header with a bad value", "target.http.headers", `"X-A"`, withHeader("X-A", "x\r\nX-B: y")},
	{"header value not UTF-8", "target.http.headers", `"X-A"`, withHeader("X-A", "\xff")},
	{"header that has a field", "target.http.headers", "content_type", withHeader("Content-Type", "text/plain")},
	{"header of Carillon", "target.http.headers", "set by Carillon", withHeader("carillon-Attempt", "1")},
	{"header of CloudEvents", "target.http.headers", "set by Carillon", withHeader("CE-Id", "1")},
	{"header of webhooks", "target.http.headers", "set by Carillon", withHeader("Webhook-Signature", "1")},
	{"header that is the key", "target.http.headers", "set by Carillon", withHeader("Idempotency-Key", "1")},
	{"header that traces", "target.http.headers", "set by Carillon", withHeader("Traceparent", "1")},
	{"header of the connection", "target.http.headers", "connection", withHeader("Transfer-Encoding", "chunked")},
	{"header that is the host", "target.http.headers", "connection", withHeader("Host", "internal")},
	{"header twice", "target.http.headers", "the same header", func(j *carillon.Job) {
		withHTTP(j, carillon.HTTPTarget{Headers: map[string]string{"X-A": "1", "x-a": "2"}})
	}},
	{"headers too large", "target.http.headers", "more than 16384", withHeader("X-A", strings.Repeat("x", 16<<10))},
}

var policyFaults = []fault{
	{"policy unknown", "failure_policy", "default, drop, constant", withPolicy(carillon.FailurePolicy{Kind: 5})},
	{"interval in another policy", "failure_policy.constant.interval", "belongs to the policy constant", withPolicy(carillon.FailurePolicy{Kind: carillon.PolicyExponential, Interval: 1})},
	{"cron in another policy", "failure_policy.schedule.cron", "this one is drop", withPolicy(carillon.FailurePolicy{Kind: carillon.PolicyDrop, Schedule: "@daily"})},
	{"initial in no policy", "failure_policy.exponential.initial", "this one is default", withPolicy(carillon.FailurePolicy{Initial: 1})},
	{"factor in another policy", "failure_policy.exponential.factor", "belongs to", withPolicy(carillon.FailurePolicy{Kind: carillon.PolicyDrop, Factor: 2})},
	{"max in another policy", "failure_policy.exponential.max", "belongs to", withPolicy(carillon.FailurePolicy{Kind: carillon.PolicyDrop, Max: 1})},
	{"jitter in another policy", "failure_policy.exponential.jitter", "belongs to", withPolicy(carillon.FailurePolicy{Kind: carillon.PolicyDrop, Jitter: 1})},
	{"max_retries with drop", "failure_policy.drop.max_retries", "drop has none", withPolicy(carillon.Drop().WithMaxRetries(1))},
	{"max_retries with no policy", "failure_policy", "default has none", withPolicy(carillon.FailurePolicy{}.WithMaxRetries(1))},
	{"interval negative", "failure_policy.constant.interval", "negative", withPolicy(carillon.Constant(-1))},
	{"interval too long", "failure_policy.constant.interval", "longer than", withPolicy(carillon.Constant(math.MaxInt64))},
	{"retries without pause or end", "failure_policy.constant.interval", "max_retries", withPolicy(carillon.Constant(0))},
	{"constant max_retries", "failure_policy.constant.max_retries", "more than 1000000", withPolicy(carillon.Constant(1).WithMaxRetries(1_000_001))},
	{"no cron", "failure_policy.schedule.cron", "empty", withPolicy(carillon.OnSchedule(""))},
	{"cron that is none", "failure_policy.schedule.cron", "position", withPolicy(carillon.OnSchedule("1 2 3"))},
	{"cron that is @every", "failure_policy.schedule.cron", "not a cron", withPolicy(carillon.OnSchedule("@every 1s"))},
	{"cron that is a repeat", "failure_policy.schedule.cron", "not a cron", withPolicy(carillon.OnSchedule("R/2026-01-01T00:00:00Z/P1D"))},
	{"cron too long", "failure_policy.schedule.cron", "1025 bytes", withPolicy(carillon.OnSchedule("@daily" + strings.Repeat(" ", 1019)))},
	{"schedule max_retries", "failure_policy.schedule.max_retries", "more than 1000000", withPolicy(carillon.OnSchedule("@daily").WithMaxRetries(1_000_001))},
	{"initial negative", "failure_policy.exponential.initial", "negative", withPolicy(carillon.Exponential(-1))},
	{"factor below 1", "failure_policy.exponential.factor", "from 1 up", withPolicy(carillon.FailurePolicy{Kind: carillon.PolicyExponential, Factor: 0.5})},
	{"factor negative", "failure_policy.exponential.factor", "from 1 up", withPolicy(carillon.FailurePolicy{Kind: carillon.PolicyExponential, Factor: -2})},
	{"factor that is no number", "failure_policy.exponential.factor", "from 1 up", withPolicy(carillon.FailurePolicy{Kind: carillon.PolicyExponential, Factor: math.NaN()})},
	{"factor without bounds", "failure_policy.exponential.factor", "from 1 up", withPolicy(carillon.FailurePolicy{Kind: carillon.PolicyExponential, Factor: math.Inf(1)})},
	{"max negative", "failure_policy.exponential.max", "negative", withPolicy(carillon.FailurePolicy{Kind: carillon.PolicyExponential, Max: -1})},
	{"max below initial", "failure_policy.exponential.max", "initial, 2s", withPolicy(carillon.FailurePolicy{Kind: carillon.PolicyExponential, Max: time.Second})},
	{"initial above max", "failure_policy.exponential.max", "1h0m0s is shorter", withPolicy(carillon.Exponential(2 * time.Hour))},
	{"retry jitter negative", "failure_policy.exponential.jitter", "negative", withPolicy(carillon.FailurePolicy{Kind: carillon.PolicyExponential, Jitter: -1})},
	{"exponential max_retries", "failure_policy.exponential.max_retries", "more than 1000000", withPolicy(carillon.Exponential(1).WithMaxRetries(1_000_001))},
	{"on_exhausted unknown", "failure_policy.on_exhausted", "default, dead, drop", withPolicy(carillon.FailurePolicy{OnExhausted: 3})},
	{"drop, then dead", "failure_policy.on_exhausted", "no dead runs", withPolicy(carillon.FailurePolicy{Kind: carillon.PolicyDrop, OnExhausted: carillon.ExhaustedDead})},
}
