package main

import (
	"context"
	"fmt"
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
	var r repeated
	cmd := c.inNamespace(a, "get NAME", "Show a job and what became of it", nil)
	r.one(cmd, a, &c,
		func(ctx context.Context, node *client.Client, words []string) (answer, error) {
			job, err := node.GetJob(ctx, c.key(words[0]))
			if err != nil {
				return answer{}, hasRun(ctx, node, c.key(words[0]), err)
			}
			return answer{message: wire.JobToProto(&job), text: jobDescription(&job), names: []string{job.Name}}, nil
		})
	cmd.ValidArgsFunction = c.completeJobs
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
		"job %q is not there any more, but its finished runs are kept: carillon job runs %s%s",
		key.Name, key.Name, lastOf(&page.Runs[0]))
}

// lastOf says how the last run of a job that is gone ended, and what may follow.
func lastOf(r *carillon.Run) string {
	text := "\nThe last one is " + r.Status.String()
	if why := clip(whyText(r), 200); why != "" {
		text += ": " + why
	}
	if r.Status == carillon.RunDead {
		text += "\nNew attempts: carillon run redrive --job " + r.Job
	}
	return text
}

// jobDescription describes a job for people.
func jobDescription(j *carillon.Job) string {
	return description(append(jobFields(j), statusFields(j, time.Now())...))
}

// statusFields are what became of a job.
func statusFields(j *carillon.Job, now time.Time) []field {
	s := j.Status
	if s == nil {
		return nil
	}
	return []field{
		{"phase", s.Phase.String()},
		{"hold", holdText(s.Hold)},
		{"waiting for", strings.Join(s.Waiting, " ")},
		{"of which there is no job", strings.Join(s.Missing, " ")},
		{"calendars that do not exist", strings.Join(s.MissingCalendars, " ")},
		{"next run", localAndAgo(s.NextRun, now)},
		{"current run", runText(s.Current)},
		{"progress", currentProgress(s.Current)},
		{"pending runs", pendingText(s.Pending)},
		{"last run", runText(s.LastRun)},
		{"failed runs in a row", unlessZero("%d", s.Failures)},
		{"counters", countersText(s.Counters)},
		{"generation", strconv.FormatUint(s.Generation, 10)},
		{"created", localAndAgo(s.Created, now)},
		{"updated", localAndAgo(s.Updated, now)},
	}
}

// jobFields are what the job's author set, in the order of the flags; a field at its default is empty.
func jobFields(j *carillon.Job) []field {
	return []field{
		{"name", j.Name},
		{"namespace", j.Namespace},
		{"schedule", strings.TrimSpace(j.Schedule + " " + j.TimeZone)},
		{"dst", unlessZero("%v", j.Calendars.DST)},
		{"except", strings.Join(j.Calendars.Except, " ")},
		{"only", strings.Join(j.Calendars.Only, " ")},
		{"due time", j.Due.String()},
		{"repeats", unlessZero("%d", j.Repeats)},
		{"jitter", unlessZero("%v", j.Jitter)},
		{"ttl", j.TTL.String()},
		{"target", wholeTarget(j.Target)},
		{"data", dataText(j.Data)},
		{"metadata", pairsText(j.Metadata)},
		{"labels", pairsText(j.Labels)},
		{"retry", policyText(j.FailurePolicy)},
		{"timeout", unlessZero("%v", j.Timeout)},
		{"lease", unlessZero("%v", j.Lease)},
		{"overlap", unlessZero("%v", j.Overlap)},
		{"misfire", unlessZero("%v", j.Misfire.Rule)},
		{"catch-up limit", unlessZero("%d", j.Misfire.Limit)},
		{"catch-up window", unlessZero("%v", j.Misfire.Window)},
		{"priority", unlessZero("%v", j.Priority)},
		{"concurrency key", j.ConcurrencyKey},
		{"depends on", strings.Join(j.DependsOn, " ")},
		{"paused", unlessZero("%v", j.Paused)},
		{"note", j.Note},
		{"history", historyText(j.History)},
	}
}

// historyText describes which finished runs are kept, as far as it was set.
func historyText(h carillon.History) string {
	results := ""
	if h.NoResults {
		results = "no results"
	}
	return commas(unlessZero("%d runs", h.Runs), unlessZero("%v", h.Keep), results)
}

// commas joins what is not empty.
func commas(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

// policyText describes what follows a failed attempt, as far as it was set.
func policyText(p carillon.FailurePolicy) string {
	retries := ""
	if p.MaxRetries != nil {
		retries = fmt.Sprintf("at most %d retries", *p.MaxRetries)
	}
	return commas(unlessZero("%v", p.Kind), unlessZero("every %v", p.Interval), unlessZero("at %s", p.Schedule),
		unlessZero("from %v", p.Initial), unlessZero("times %v", p.Factor), unlessZero("up to %v", p.Max),
		unlessZero("jitter %v", p.Jitter), retries, unlessZero("then %v", p.OnExhausted),
		unlessZero("pause the job after %d runs", p.PauseAfter))
}

// dataText returns a payload for people: its beginning if it is text.
func dataText(d carillon.Data) string {
	switch {
	case d.Ref != nil:
		return commas(fmt.Sprintf("%d bytes in the payload store", d.Ref.Size), d.ContentType, d.Ref.String())
	case len(d.Bytes) == 0:
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
		status += " at " + localTime(r.Due)
	}
	return fmt.Sprintf("%s, scheduled %s, attempt %d, id %s", status, localTime(r.Scheduled), r.Attempt, shortID(r.ID))
}

// pendingText describes the runs beside the job's own, one on a line.
func pendingText(runs []carillon.Run) string {
	var lines []string
	for i := range runs {
		lines = append(lines, fmt.Sprintf("%s, by %s", runText(&runs[i]), runs[i].Cause))
	}
	return strings.Join(lines, "\n")
}

// holdText describes why a run does not go on, on one line.
func holdText(h *carillon.Hold) string {
	if h == nil {
		return ""
	}
	text := h.Code + ": " + h.Text
	if !h.Since.IsZero() {
		text += " (since " + localTime(h.Since) + ")"
	}
	return text
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
