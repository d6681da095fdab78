package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
)

// jobFlag is a flag that sets part of a job. When parsed it is tried on an empty job, so that errors are
// reported at once; it is applied to the real job later.
type jobFlag struct {
	name  string
	field string // the API's field, or a path within it, that a patch with this flag changes
	kind  string // for the help
	usage string
	words []string // for completion; nil: anything
	set   func(j *carillon.Job, text string) error
	texts []string
}

func (f *jobFlag) String() string { return strings.Join(f.texts, ",") }

// Type implements pflag.Value.
func (f *jobFlag) Type() string { return f.kind }

// Set implements pflag.Value.
func (f *jobFlag) Set(text string) error {
	if err := f.set(&carillon.Job{}, text); err != nil {
		return err
	}
	f.texts = append(f.texts, text)
	return nil
}

// jobFlags are the flags of `job put` and `job patch`.
type jobFlags []*jobFlag

// add adds the flags to a command.
func (fs jobFlags) add(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	for _, f := range fs {
		flag := cmd.Flags().VarPF(f, f.name, "", f.usage)
		if f.kind == "bool" {
			flag.NoOptDefVal = "true"
		}
		switch {
		case f.words != nil:
			complete(cmd, f.name, f.words)
		case f.name == "time-zone":
			zoneFlag(cmd)
		}
	}
}

// apply sets the given flags in j, and returns fields with the API's names of those that they changed.
func (fs jobFlags) apply(flags *pflag.FlagSet, j *carillon.Job, fields []string) ([]string, error) {
	for _, f := range fs {
		if !flags.Changed(f.name) {
			continue
		}
		for _, text := range f.texts {
			if err := f.set(j, text); err != nil {
				return nil, err
			}
		}
		field := f.field
		if field == formField && j.FailurePolicy.Kind != carillon.PolicyDefault {
			field += "." + j.FailurePolicy.Kind.String() // the default policy is set back as a whole
		}
		if !slices.Contains(fields, field) {
			fields = append(fields, field)
		}
	}
	return fields, nil
}

// newJobFlags returns all of them, in the order of the help.
func newJobFlags(in io.Reader) jobFlags {
	return slices.Concat(whenFlags(), targetFlags(), payloadFlags(in), retryFlags(), policyFlags())
}

func whenFlags() jobFlags {
	return jobFlags{
		text("schedule", "schedule", "expr",
			"when it recurs: a cron, \"@every 10s\", \"@daily\" or an ISO 8601 repeat; several with \";\" between them",
			func(j *carillon.Job) *string { return &j.Schedule }),
		text("time-zone", "time_zone", "zone", "IANA time zone of the schedule; default UTC",
			func(j *carillon.Job) *string { return &j.TimeZone }),
		enum("dst", "dst", dstWords, "what a cron does when clocks change; default safe",
			func(j *carillon.Job, n int) { j.Calendars.DST = carillon.DST(n) }),
		{name: "except", field: "except", kind: "calendar",
			usage: "times in this calendar do not run; repeatable",
			set: func(j *carillon.Job, s string) error {
				j.Calendars.Except = append(j.Calendars.Except, s)
				return nil
			}},
		{name: "only", field: "only", kind: "calendar",
			usage: "only times in this calendar run; repeatable",
			set: func(j *carillon.Job, s string) error {
				j.Calendars.Only = append(j.Calendars.Only, s)
				return nil
			}},
		when("in", "due_time", "duration", "first run, from now: 5m, 1d12h, 2w or PT5M",
			func(j *carillon.Job) *carillon.When { return &j.Due }),
		{name: "at", field: "due_time", kind: "time", set: setDue,
			usage: "first run: an RFC 3339 time, or 2027-01-31 08:00, 18:30, \"tomorrow 09:00\" or \"monday 12:00\" in --time-zone, " +
				"or without that in this machine's"},
		value("repeats", "repeats", "n", "most runs that the schedule begins; 0 is no limit",
			func(j *carillon.Job) *uint64 { return &j.Repeats },
			number(func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) })),
		length("jitter", "jitter", "move each run by up to this much, the same for the same time",
			func(j *carillon.Job) *time.Duration { return &j.Jitter }),
		when("ttl", "ttl", "duration|time", "end of its life, from its first run if that is given, else from now",
			func(j *carillon.Job) *carillon.When { return &j.TTL }),
	}
}

func targetFlags() jobFlags { return slices.Concat(ownTargetFlags(), brokerFlags()) }

func ownTargetFlags() jobFlags {
	return jobFlags{
		value("worker", "target", "queue", "run it on a worker connected for the queue",
			func(j *carillon.Job) **carillon.WorkerTarget { return &j.Target.Worker },
			func(s string) (*carillon.WorkerTarget, error) { return &carillon.WorkerTarget{Queue: s}, nil }),
		text("http", "target", "url", "call the URL", func(j *carillon.Job) *string { return &httpTarget(j).URL }),
		text("method", "target", "method", "HTTP method; default POST",
			func(j *carillon.Job) *string { return &httpTarget(j).Method }),
		pairs("header", "target", "HTTP header to send; repeatable",
			func(j *carillon.Job) *map[string]string { return &httpTarget(j).Headers }),
	}
}

// brokerFlags are those of targets at brokers.
func brokerFlags() jobFlags {
	return jobFlags{
		brokerFlag("kafka", "cluster/topic", "send it to a topic of Kafka",
			func(j *carillon.Job, broker, name string) {
				k := kafkaTarget(j)
				k.Cluster, k.Topic = broker, name
			}),
		text("kafka-key", "target", "key", "key of the record; default the job's name",
			func(j *carillon.Job) *string { return &kafkaTarget(j).Key }),
		brokerFlag("amqp", "broker/exchange", "send it to an exchange of RabbitMQ; BROKER/ is the default one",
			func(j *carillon.Job, broker, name string) {
				a := amqpTarget(j)
				a.Broker, a.Exchange = broker, name
			}),
		text("routing-key", "target", "key", "routing key; for the default exchange the name of a queue",
			func(j *carillon.Job) *string { return &amqpTarget(j).RoutingKey }),
		brokerFlag("nats", "server/subject", "publish it to a subject of NATS",
			func(j *carillon.Job, broker, name string) {
				j.Target.NATS = &carillon.NATSTarget{Server: broker, Subject: name}
			}),
		brokerFlag("redis", "server/stream", "add it to a stream of Redis",
			func(j *carillon.Job, broker, name string) {
				j.Target.Redis = &carillon.RedisTarget{Server: broker, Stream: name}
			}),
		{name: "await-completion", field: "target", kind: "bool",
			usage: "a broker's run goes on until a consumer completes it by its token, or its timeout passes",
			set:   awaitCompletion},
	}
}

// awaitCompletion sets the field of the target at a broker that the flags before it have set.
func awaitCompletion(j *carillon.Job, s string) error {
	await, err := strconv.ParseBool(s)
	if err != nil {
		return fmt.Errorf("%q is not true or false", clip(s, 40))
	}
	switch t := &j.Target; {
	case t.Kafka != nil:
		t.Kafka.AwaitCompletion = await
	case t.AMQP != nil:
		t.AMQP.AwaitCompletion = await
	case t.NATS != nil:
		t.NATS.AwaitCompletion = await
	case t.Redis != nil:
		t.Redis.AwaitCompletion = await
	case t.Kind() != "":
		return usagef("--await-completion has no effect on a target of kind %s, only on kafka, amqp, nats and redis",
			t.Kind())
	}
	return nil
}

// brokerFlag returns a flag for a target that is the name of a broker and of what it keeps apart.
func brokerFlag(name, kind, usage string, set func(j *carillon.Job, broker, name string)) *jobFlag {
	return &jobFlag{name: name, field: "target", kind: kind, usage: usage,
		set: func(j *carillon.Job, s string) error {
			broker, of, ok := strings.Cut(s, "/")
			if !ok || broker == "" {
				return fmt.Errorf("%q is not %s", clip(s, 40), kind)
			}
			set(j, broker, of)
			return nil
		}}
}

// kafkaTarget returns the job's target at Kafka, and creates it if there is none.
func kafkaTarget(j *carillon.Job) *carillon.KafkaTarget {
	if j.Target.Kafka == nil {
		j.Target.Kafka = &carillon.KafkaTarget{}
	}
	return j.Target.Kafka
}

// amqpTarget returns the job's target at RabbitMQ, and creates it if there is none.
func amqpTarget(j *carillon.Job) *carillon.AMQPTarget {
	if j.Target.AMQP == nil {
		j.Target.AMQP = &carillon.AMQPTarget{}
	}
	return j.Target.AMQP
}

// httpTarget returns the job's HTTP target, and creates it if there is none.
func httpTarget(j *carillon.Job) *carillon.HTTPTarget {
	if j.Target.HTTP == nil {
		j.Target.HTTP = &carillon.HTTPTarget{}
	}
	return j.Target.HTTP
}

func payloadFlags(in io.Reader) jobFlags {
	return jobFlags{
		value("data", "data", "json", "payload: JSON, @FILE, or - for standard input; any bytes with --content-type",
			func(j *carillon.Job) *[]byte { return &j.Data.Bytes }, payloadReader(in)),
		payloadFlag(),
		text("content-type", "content_type", "type", "content type of the payload; default application/json",
			func(j *carillon.Job) *string { return &j.Data.ContentType }),
		pairs("metadata", "metadata", "handed over with every run; repeatable",
			func(j *carillon.Job) *map[string]string { return &j.Metadata }),
		pairs("label", "labels", "jobs can be listed by it; repeatable",
			func(j *carillon.Job) *map[string]string { return &j.Labels }),
	}
}

// payloadReader returns a function that reads the payload that the flag names, each only once.
func payloadReader(in io.Reader) func(text string) ([]byte, error) {
	have := make(map[string][]byte)
	return func(text string) (b []byte, err error) {
		if b, ok := have[text]; ok {
			return b, nil
		}
		switch {
		case text == "-":
			b, err = io.ReadAll(in)
		case strings.HasPrefix(text, "@"):
			b, err = readNamed("data", text[1:])
		default:
			b = []byte(text)
		}
		have[text] = b
		return b, err
	}
}

// checkData makes a payload without a content type JSON, and refuses it if it is not.
func checkData(d *carillon.Data) error {
	if d.ContentType != "" || d.Bytes == nil {
		return nil
	}
	if !json.Valid(d.Bytes) {
		return usagef("--data: %q is not JSON; give --content-type to send it as it is", clip(string(d.Bytes), 40))
	}
	d.ContentType = carillon.ContentTypeJSON
	return nil
}

// formField is the field that --retry changes.
const formField = "failure_policy"

func retryFlags() jobFlags {
	return jobFlags{
		enum("retry", formField, policyWords,
			"what follows a failed attempt; default: exponential for one-shots, constant 1s 3 times for schedules",
			func(j *carillon.Job, n int) { j.FailurePolicy.Kind = carillon.PolicyKind(n) }),
		length("retry-interval", "failure_policy.constant.interval", "constant: between two attempts",
			func(j *carillon.Job) *time.Duration { return &inForm(j, carillon.PolicyConstant).Interval }),
		text("retry-cron", "failure_policy.schedule.cron", "cron", "schedule: times of the next attempts",
			func(j *carillon.Job) *string { return &inForm(j, carillon.PolicySchedule).Schedule }),
		length("retry-initial", "failure_policy.exponential.initial", "exponential: first delay; default 2s",
			func(j *carillon.Job) *time.Duration { return &inForm(j, carillon.PolicyExponential).Initial }),
		value("retry-factor", "failure_policy.exponential.factor", "factor",
			"exponential: growth of the delay; default 2",
			func(j *carillon.Job) *float64 { return &inForm(j, carillon.PolicyExponential).Factor },
			number(func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })),
		length("retry-max", "failure_policy.exponential.max", "exponential: longest delay; default 1h",
			func(j *carillon.Job) *time.Duration { return &inForm(j, carillon.PolicyExponential).Max }),
		length("retry-jitter", "failure_policy.exponential.jitter", "exponential: up to this much is added; default 0",
			func(j *carillon.Job) *time.Duration { return &inForm(j, carillon.PolicyExponential).Jitter }),
		value("max-retries", "failure_policy.max_retries", "n",
			"attempts after the first; default 4 for exponential, no limit for constant and schedule",
			func(j *carillon.Job) **uint32 { return &j.FailurePolicy.MaxRetries }, number(parseRetries)),
		enum("on-exhausted", "failure_policy.on_exhausted", exhaustedWords,
			"what becomes of a run without attempts left; default: dead for one-shots, drop for schedules",
			func(j *carillon.Job, n int) { j.FailurePolicy.OnExhausted = carillon.OnExhausted(n) }),
		value("pause-after", "failure_policy.pause_after", "n",
			"runs in a row that may end failed or dead before the job is paused; default 0, it never is",
			func(j *carillon.Job) *uint32 { return &j.FailurePolicy.PauseAfter }, number(parseCount)),
	}
}

// inForm returns the job's failure policy, which gets the form unless it has one.
func inForm(j *carillon.Job, form carillon.PolicyKind) *carillon.FailurePolicy {
	j.FailurePolicy.Kind = cmp.Or(j.FailurePolicy.Kind, form)
	return &j.FailurePolicy
}

func parseRetries(s string) (*uint32, error) {
	n, err := parseCount(s)
	return &n, err
}

func parseCount(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err
}

// checkPolicy refuses a number of retries without a policy that it belongs to.
func checkPolicy(p *carillon.FailurePolicy) error {
	if p.Kind == carillon.PolicyDefault && p.MaxRetries != nil {
		return usagef("--max-retries needs --retry constant, schedule or exponential")
	}
	return nil
}

func policyFlags() jobFlags {
	return jobFlags{
		length("timeout", "timeout", "limit of one attempt; default 30s, 24h for worker, 1h with --await-completion",
			func(j *carillon.Job) *time.Duration { return &j.Timeout }),
		length("lease", "lease", "how long an attempt lives without a heartbeat; default 2m",
			func(j *carillon.Job) *time.Duration { return &j.Lease }),
		enum("overlap", "overlap", overlapWords,
			"what happens when a run is due while the one before is going; default serial",
			func(j *carillon.Job, n int) { j.Overlap = carillon.Overlap(n) }),
		enum("misfire", "misfire", misfireWords,
			"what becomes of runs that could not begin in time; default latest",
			func(j *carillon.Job, n int) { j.Misfire.Rule = carillon.MisfireRule(n) }),
		value("catch-up-limit", "catch_up_limit", "n", "most runs made up for by --misfire all; default 1000",
			func(j *carillon.Job) *int { return &j.Misfire.Limit }, number(strconv.Atoi)),
		length("catch-up-window", "catch_up_window", "runs missed longer ago are not made up for; default no limit",
			func(j *carillon.Job) *time.Duration { return &j.Misfire.Window }),
		enum("priority", "priority", priorityWords, "order among due runs; default normal",
			func(j *carillon.Job, n int) { j.Priority = carillon.Priority(n) }),
		text("concurrency-key", "concurrency_key", "key",
			"runs of jobs that share it are limited; see carillon namespace set",
			func(j *carillon.Job) *string { return &j.ConcurrencyKey }),
		{name: "depends-on", field: "depends_on", kind: "job",
			usage: "each run waits until this job has succeeded once more; repeatable",
			set:   func(j *carillon.Job, s string) error { j.DependsOn = append(j.DependsOn, s); return nil }},
		value("paused", "paused", "bool", "keep its schedule and fire nothing",
			func(j *carillon.Job) *bool { return &j.Paused }, strconv.ParseBool),
		text("note", "note", "text", "a note for people", func(j *carillon.Job) *string { return &j.Note }),
		value("history-runs", "history.runs", "n", "finished runs to keep; default 20, -1 for none",
			func(j *carillon.Job) *int { return &j.History.Runs }, number(strconv.Atoi)),
		length("history-keep", "history.keep", "how long to keep them; default 72h",
			func(j *carillon.Job) *time.Duration { return &j.History.Keep }),
		value("no-results", "history.no_results", "bool", "keep them without their results",
			func(j *carillon.Job) *bool { return &j.History.NoResults }, strconv.ParseBool),
	}
}

// value returns a flag for a field of the job.
func value[T any](name, field, kind, usage string, at func(*carillon.Job) *T,
	parse func(string) (T, error)) *jobFlag {
	return &jobFlag{name: name, field: field, kind: kind, usage: usage,
		set: func(j *carillon.Job, s string) (err error) {
			*at(j), err = parse(s)
			return err
		}}
}

// text returns a flag for a string of the job.
func text(name, field, kind, usage string, at func(*carillon.Job) *string) *jobFlag {
	return value(name, field, kind, usage, at, func(s string) (string, error) { return s, nil })
}

// when returns a flag for a point in time of the job.
func when(name, field, kind, usage string, at func(*carillon.Job) *carillon.When) *jobFlag {
	return value(name, field, kind, usage, at,
		func(s string) (carillon.When, error) { return carillon.WhenText(plainDuration(s)), nil })
}

// length returns a flag for a duration of the job.
func length(name, field, usage string, at func(*carillon.Job) *time.Duration) *jobFlag {
	return value(name, field, "duration", usage, at, span)
}

// number returns parse with its errors in plain words.
func number[T any](parse func(string) (T, error)) func(string) (T, error) {
	return func(s string) (T, error) {
		n, err := parse(s)
		return n, numberError(s, err)
	}
}

// numberError describes in plain words that s is not a number, or out of range.
func numberError(s string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("%s is out of range", clip(s, 40))
	default:
		return fmt.Errorf("%q is not a number that it takes", clip(s, 40))
	}
}

// enum returns a flag for one of several words.
func enum(name, field string, words []string, usage string, set func(*carillon.Job, int)) *jobFlag {
	return &jobFlag{name: name, field: field, kind: strings.Join(words, "|"), usage: usage, words: words,
		set: func(j *carillon.Job, s string) error {
			n, err := choose(words, s)
			if err == nil {
				set(j, n)
			}
			return err
		}}
}

// pairs returns a flag for a map of the job.
func pairs(name, field, usage string, at func(*carillon.Job) *map[string]string) *jobFlag {
	return &jobFlag{name: name, field: field, kind: "key=value", usage: usage,
		set: func(j *carillon.Job, s string) error {
			key, value, ok := strings.Cut(s, "=")
			if !ok || key == "" {
				return fmt.Errorf("%q is not key=value", clip(s, 40))
			}
			if *at(j) == nil {
				*at(j) = make(map[string]string)
			}
			(*at(j))[key] = value
			return nil
		}}
}

// span parses a Go or ISO 8601 duration.
func span(s string) (time.Duration, error) {
	d, err := parseSpan(s)
	if e, ok := errors.AsType[*schedule.Error](err); ok {
		return d, errors.New(e.Msg)
	}
	return d, err
}
