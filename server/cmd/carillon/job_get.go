package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
)

// newJobGet returns the command `carillon job get`.
func newJobGet(a app) *cobra.Command {
	var c connection
	cmd := &cobra.Command{
		Use:   "get NAME",
		Short: "Show a job and what became of it",
		Args:  arguments(1, 1),
		RunE: func(cmd *cobra.Command, words []string) error {
			return c.call(cmd, func(ctx context.Context, node *client.Client) error {
				job, err := node.GetJob(ctx, c.key(words[0]))
				if err != nil {
					return hasRun(ctx, node, c.key(words[0]), err)
				}
				if wantsJSON(cmd) {
					return printMessage(a.out, wire.JobToProto(&job))
				}
				return printJob(a.out, &job)
			})
		},
	}
	c.add(cmd)
	addOutput(cmd)
	return cmd
}

// hasRun points from a job that is gone to its run: a one-shot is removed once it has run.
func hasRun(ctx context.Context, node carillon.Runs, key carillon.Key, err error) error {
	if carillon.KindOf(err) != carillon.NotFound {
		return err
	}
	page, listErr := node.ListRuns(ctx, carillon.RunQuery{Namespace: key.Namespace, Job: key.Name, PageSize: 1})
	if listErr != nil || len(page.Runs) == 0 {
		return err // the job does not exist, and no run says more
	}
	return carillon.Errorf(carillon.NotFound, "name",
		"job %q is not there any more, but its finished runs are kept: carillon job runs %s",
		key.Name, key.Name)
}

// printJob describes a job for people.
func printJob(w io.Writer, j *carillon.Job) error {
	fields := jobFields(j)
	if s := j.Status; s != nil {
		fields = append(fields,
			field{"phase", s.Phase.String()},
			field{"waiting for", strings.Join(s.Waiting, " ")},
			field{"of which there is no job", strings.Join(s.Missing, " ")},
			field{"next run", moment(s.NextRun)},
			field{"current run", runText(s.Current)},
			field{"progress", currentProgress(s.Current)},
			field{"last run", runText(s.LastRun)},
			field{"counters", countersText(s.Counters)},
			field{"generation", strconv.FormatUint(s.Generation, 10)},
			field{"created", moment(s.Created)},
			field{"updated", moment(s.Updated)})
	}
	return printFields(w, fields)
}

// jobFields are what the job's author set, in the order of the flags; a field at its default is empty.
func jobFields(j *carillon.Job) []field {
	return []field{
		{"name", j.Name},
		{"namespace", j.Namespace},
		{"schedule", strings.TrimSpace(j.Schedule + " " + j.TimeZone)},
		{"dst", unlessDefault(j.DST)},
		{"due time", j.Due.String()},
		{"repeats", numberText(int64(j.Repeats))},
		{"jitter", spanText(j.Jitter)},
		{"ttl", j.TTL.String()},
		{"target", targetText(j.Target)},
		{"data", dataText(j.Data)},
		{"metadata", pairsText(j.Metadata)},
		{"labels", pairsText(j.Labels)},
		{"retry", policyText(j.FailurePolicy)},
		{"timeout", spanText(j.Timeout)},
		{"lease", spanText(j.Lease)},
		{"overlap", unlessDefault(j.Overlap)},
		{"misfire", unlessDefault(j.Misfire)},
		{"catch-up limit", numberText(int64(j.CatchUpLimit))},
		{"catch-up window", spanText(j.CatchUpWindow)},
		{"priority", unlessDefault(j.Priority)},
		{"concurrency key", j.ConcurrencyKey},
		{"depends on", strings.Join(j.DependsOn, " ")},
		{"note", j.Note},
		{"history", joined(numberText(int64(j.History.Runs)), "runs", spanText(j.History.Keep))},
	}
}

// unlessDefault returns the word of a value, nothing for the first of its kind.
func unlessDefault[T interface {
	~uint8
	fmt.Stringer
}](v T) string {
	if v == 0 {
		return ""
	}
	return v.String()
}

func numberText(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func spanText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// joined returns "value unit" and more, separated by commas; what is empty is left out.
func joined(value, unit string, more ...string) string {
	var parts []string
	if value != "" {
		parts = append(parts, value+" "+unit)
	}
	for _, m := range more {
		if m != "" {
			parts = append(parts, m)
		}
	}
	return strings.Join(parts, ", ")
}

// policyText describes what follows a failed attempt, as far as it was set.
func policyText(p carillon.FailurePolicy) string {
	parts := []string{unlessDefault(p.Kind)}
	add := func(format string, v any, set bool) {
		if set {
			parts = append(parts, fmt.Sprintf(format, v))
		}
	}
	add("every %v", p.Interval, p.Interval != 0)
	add("at %s", p.Schedule, p.Schedule != "")
	add("from %v", p.Initial, p.Initial != 0)
	add("times %v", p.Factor, p.Factor != 0)
	add("up to %v", p.Max, p.Max != 0)
	add("jitter %v", p.Jitter, p.Jitter != 0)
	if p.MaxRetries != nil {
		parts = append(parts, fmt.Sprintf("at most %d retries", *p.MaxRetries))
	}
	add("then %v", p.OnExhausted, p.OnExhausted != carillon.ExhaustedDefault)
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

// dataText returns a payload for people: its beginning if it is text.
func dataText(d carillon.Data) string {
	if len(d.Bytes) == 0 {
		return ""
	}
	if strings.HasSuffix(d.ContentType, "json") || strings.HasPrefix(d.ContentType, "text/") {
		return clip(string(d.Bytes), 120)
	}
	return fmt.Sprintf("%d bytes of %s", len(d.Bytes), d.ContentType)
}

func pairsText(m map[string]string) string {
	pairs := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		pairs = append(pairs, k+"="+m[k])
	}
	return strings.Join(pairs, " ")
}

// runText describes a run on one line.
func runText(r *carillon.Run) string {
	if r == nil {
		return ""
	}
	status := r.Status.String()
	if r.Status == carillon.RunRetrying {
		status += " at " + moment(r.Due)
	}
	return fmt.Sprintf("%s, scheduled %s, attempt %d, id %s", status, moment(r.Scheduled), r.Attempt, r.ID)
}

// currentProgress returns the last reported progress of the attempt in force.
func currentProgress(r *carillon.Run) string {
	if r == nil {
		return ""
	}
	return progressText(r.Progress)
}

func countersText(c carillon.Counters) string {
	return fmt.Sprintf("fired %d, succeeded %d, failed attempts %d, retried %d, dead %d, skipped %d, late %d, dropped %d, cancelled %d",
		c.Fired, c.Succeeded, c.Failed, c.Retried, c.Dead, c.Skipped, c.Late, c.Dropped, c.Cancelled)
}
