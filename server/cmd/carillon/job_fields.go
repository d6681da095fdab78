package main

import (
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
		if f.words != nil {
			complete(cmd, f.name, f.words)
		}
	}
}

// apply sets the given flags in j, and returns the API's names of the fields that they changed.
func (fs jobFlags) apply(flags *pflag.FlagSet, j *carillon.Job) ([]string, error) {
	var fields []string
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
			"when it recurs: a cron, \"@every 10s\", \"@daily\" or an ISO 8601 repeat",
			func(j *carillon.Job) *string { return &j.Schedule }),
		text("time-zone", "time_zone", "zone", "IANA time zone of the schedule; default UTC",
			func(j *carillon.Job) *string { return &j.TimeZone }),
		enum("dst", "dst", dstWords, "what a cron does when clocks change; default safe",
			func(j *carillon.Job, n int) { j.DST = carillon.DST(n) }),
		when("in", "due_time", "duration", "first run, from now: 5m or PT5M",
			func(j *carillon.Job) *carillon.When { return &j.Due }),
		when("at", "due_time", "time", "first run: an RFC 3339 time",
			func(j *carillon.Job) *carillon.When { return &j.Due }),
		{name: "repeats", field: "repeats", kind: "n", usage: "most runs that the schedule begins; 0 is no limit",
			set: func(j *carillon.Job, s string) (err error) {
				j.Repeats, err = strconv.ParseUint(s, 10, 64)
				return numberError(s, err)
			}},
		length("jitter", "jitter", "move each run by up to this much, the same for the same time",
			func(j *carillon.Job) *time.Duration { return &j.Jitter }),
		when("ttl", "ttl", "duration|time", "end of its life, from its first run if that is given, else from now",
			func(j *carillon.Job) *carillon.When { return &j.TTL }),
	}
}

func targetFlags() jobFlags {
	return jobFlags{
		{name: "worker", field: "target", kind: "queue", usage: "run it on a worker connected for the queue",
			set: func(j *carillon.Job, s string) error {
				j.Target.Worker = &carillon.WorkerTarget{Queue: s}
				return nil
			}},
		text("http", "target", "url", "call the URL", func(j *carillon.Job) *string { return &httpTarget(j).URL }),
		text("method", "target", "method", "HTTP method; default POST",
			func(j *carillon.Job) *string { return &httpTarget(j).Method }),
		pairs("header", "target", "HTTP header to send; repeatable",
			func(j *carillon.Job) *map[string]string { return &httpTarget(j).Headers }),
	}
}

// httpTarget returns the job's HTTP target, and creates it if there is none.
func httpTarget(j *carillon.Job) *carillon.HTTPTarget {
	if j.Target.HTTP == nil {
		j.Target.HTTP = &carillon.HTTPTarget{}
	}
	return j.Target.HTTP
}

func payloadFlags(in io.Reader) jobFlags {
	read := payloadReader(in)
	return jobFlags{
		{name: "data", field: "data", kind: "json",
			usage: "payload: JSON, @FILE, or - for standard input; any bytes with --content-type",
			set:   func(j *carillon.Job, s string) (err error) { j.Data.Bytes, err = read(s); return err }},
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
	policy := func(kind carillon.PolicyKind,
		set func(p *carillon.FailurePolicy, s string) error) func(*carillon.Job, string) error {
		return func(j *carillon.Job, s string) error {
			if j.FailurePolicy.Kind == carillon.PolicyDefault {
				j.FailurePolicy.Kind = kind
			}
			return set(&j.FailurePolicy, s)
		}
	}
	return jobFlags{
		enum("retry", formField, policyWords,
			"what follows a failed attempt; default: exponential for one-shots, constant 1s 3 times for schedules",
			func(j *carillon.Job, n int) { j.FailurePolicy.Kind = carillon.PolicyKind(n) }),
		{name: "retry-interval", field: "failure_policy.constant.interval", kind: "duration",
			usage: "constant: between two attempts",
			set: policy(carillon.PolicyConstant,
				func(p *carillon.FailurePolicy, s string) (err error) { return span(&p.Interval, s) })},
		{name: "retry-cron", field: "failure_policy.schedule.cron", kind: "cron",
			usage: "schedule: times of the next attempts", set: policy(carillon.PolicySchedule,
				func(p *carillon.FailurePolicy, s string) error { p.Schedule = s; return nil })},
		{name: "retry-initial", field: "failure_policy.exponential.initial", kind: "duration",
			usage: "exponential: first delay; default 2s",
			set: policy(carillon.PolicyExponential,
				func(p *carillon.FailurePolicy, s string) error { return span(&p.Initial, s) })},
		{name: "retry-factor", field: "failure_policy.exponential.factor", kind: "factor",
			usage: "exponential: growth of the delay; default 2",
			set: policy(carillon.PolicyExponential, func(p *carillon.FailurePolicy, s string) (err error) {
				p.Factor, err = strconv.ParseFloat(s, 64)
				return numberError(s, err)
			})},
		{name: "retry-max", field: "failure_policy.exponential.max", kind: "duration",
			usage: "exponential: longest delay; default 1h",
			set: policy(carillon.PolicyExponential,
				func(p *carillon.FailurePolicy, s string) error { return span(&p.Max, s) })},
		{name: "retry-jitter", field: "failure_policy.exponential.jitter", kind: "duration",
			usage: "exponential: up to this much is added; default 0",
			set: policy(carillon.PolicyExponential,
				func(p *carillon.FailurePolicy, s string) error { return span(&p.Jitter, s) })},
		{name: "max-retries", field: "failure_policy.max_retries", kind: "n",
			usage: "attempts after the first; default 4 for exponential, no limit for constant and schedule",
			set:   func(j *carillon.Job, s string) error { return setMaxRetries(&j.FailurePolicy, s) }},
		enum("on-exhausted", "failure_policy.on_exhausted", exhaustedWords,
			"what becomes of a run without attempts left; default: dead for one-shots, drop for schedules",
			func(j *carillon.Job, n int) { j.FailurePolicy.OnExhausted = carillon.OnExhausted(n) }),
	}
}

func setMaxRetries(p *carillon.FailurePolicy, s string) error {
	n, err := strconv.ParseUint(s, 10, 32)
	small := uint32(n)
	p.MaxRetries = &small
	return numberError(s, err)
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
		length("timeout", "timeout", "limit of one attempt; default 30s for http, 24h for worker",
			func(j *carillon.Job) *time.Duration { return &j.Timeout }),
		length("lease", "lease", "how long an attempt lives without a heartbeat; default 2m",
			func(j *carillon.Job) *time.Duration { return &j.Lease }),
		enum("overlap", "overlap", overlapWords,
			"what happens when a run is due while the one before is going; default serial",
			func(j *carillon.Job, n int) { j.Overlap = carillon.Overlap(n) }),
		enum("misfire", "misfire", misfireWords,
			"what becomes of runs that could not begin in time; default latest",
			func(j *carillon.Job, n int) { j.Misfire.Rule = carillon.MisfireRule(n) }),
		number("catch-up-limit", "catch_up_limit", "most runs made up for by --misfire all; default 1000",
			func(j *carillon.Job) *int { return &j.Misfire.Limit }),
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
		{name: "paused", field: "paused", kind: "bool", usage: "keep its schedule and fire nothing",
			set: func(j *carillon.Job, s string) (err error) { j.Paused, err = strconv.ParseBool(s); return err }},
		text("note", "note", "text", "a note for people", func(j *carillon.Job) *string { return &j.Note }),
		number("history-runs", "history.runs", "finished runs to keep; default 20, -1 for none",
			func(j *carillon.Job) *int { return &j.History.Runs }),
		length("history-keep", "history.keep", "how long to keep them; default 72h",
			func(j *carillon.Job) *time.Duration { return &j.History.Keep }),
	}
}

// text returns a flag for a string of the job.
func text(name, field, kind, usage string, at func(*carillon.Job) *string) *jobFlag {
	return &jobFlag{name: name, field: field, kind: kind, usage: usage,
		set: func(j *carillon.Job, s string) error { *at(j) = s; return nil }}
}

// when returns a flag for a point in time of the job.
func when(name, field, kind, usage string, at func(*carillon.Job) *carillon.When) *jobFlag {
	return &jobFlag{name: name, field: field, kind: kind, usage: usage,
		set: func(j *carillon.Job, s string) error { *at(j) = carillon.WhenText(s); return nil }}
}

// length returns a flag for a duration of the job.
func length(name, field, usage string, at func(*carillon.Job) *time.Duration) *jobFlag {
	return &jobFlag{name: name, field: field, kind: "duration", usage: usage,
		set: func(j *carillon.Job, s string) error { return span(at(j), s) }}
}

// number returns a flag for a number of the job.
func number(name, field, usage string, at func(*carillon.Job) *int) *jobFlag {
	return &jobFlag{name: name, field: field, kind: "n", usage: usage,
		set: func(j *carillon.Job, s string) (err error) {
			*at(j), err = strconv.Atoi(s)
			return numberError(s, err)
		}}
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
func span(at *time.Duration, s string) (err error) {
	*at, err = schedule.ParseDuration(s)
	if e, ok := errors.AsType[*schedule.Error](err); ok {
		return errors.New(e.Msg)
	}
	return err
}
