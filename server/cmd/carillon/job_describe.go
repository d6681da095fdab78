package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/schedule"
	"github.com/carillonhq/carillon/server/internal/manifest"

	"github.com/spf13/cobra"
)

// How many of them a description shows.
const (
	describedTimes = 5
	describedRuns  = 10
)

// newJobDescribe returns the command `carillon job describe`.
func newJobDescribe(a app) *cobra.Command {
	var c connection
	cmd := c.inNamespace(a, "describe NAME", "Say all about a job: what was set, when it runs, why it does not, and its last runs",
		func(ctx context.Context, node *client.Client, words []string) (answer, error) {
			job, err := node.GetJob(ctx, c.key(words[0]))
			if err != nil {
				return answer{}, hasRun(ctx, node, c.key(words[0]), err)
			}
			text, err := c.describe(ctx, node, &job, a.display())
			return answer{message: wire.JobToProto(&job), text: text, names: []string{job.Name}}, err
		})
	cmd.ValidArgsFunction = c.completeJobs
	return cmd
}

func (c *connection) describe(ctx context.Context, node *client.Client, j *carillon.Job,
	on display) (string, error) {
	now := time.Now()
	spec, err := manifest.Job(j)
	if err != nil {
		return "", err
	}
	page, err := node.ListRuns(ctx, carillon.RunQuery{Namespace: j.Namespace, Job: j.Name,
		PageSize: describedRuns})
	if err != nil {
		return "", err
	}
	var times carillon.Timetable
	if j.Recurring() {
		times, err = node.ListTimes(ctx, carillon.TimesQuery{Key: j.Key(), Count: describedTimes})
		if err != nil && !errors.Is(err, carillon.NotFound) { // it has ended meanwhile
			return "", err
		}
	}
	var b strings.Builder
	b.WriteString(description(append([]field{{"name", j.Name}, {"namespace", j.Namespace},
		{"left out", leftOut(times.Excluded, now)}}, statusFields(j, now)...)))
	b.WriteString("\nSet:\n")
	for line := range strings.Lines(string(spec)) {
		b.WriteString("  " + line)
	}
	b.WriteString(scheduleText(j, &times, now))
	if len(page.Runs) > 0 {
		b.WriteString("\nRuns:\n" + runColumns.grid(page.Runs).render(false, display{width: on.width}))
	}
	return b.String(), nil
}

// leftOut says which calendars leave out the time of a job that would be next; "" if none does.
func leftOut(t *carillon.ExcludedTime, now time.Time) string {
	switch {
	case t == nil:
		return ""
	case len(t.By) == 0:
		return localAndAgo(t.At, now) + " is in no calendar of only"
	}
	return localAndAgo(t.At, now) + " is in " + strings.Join(t.By, ", ")
}

// scheduleText says in words when a job runs, what may be meant otherwise, and the next times.
func scheduleText(j *carillon.Job, t *carillon.Timetable, now time.Time) string {
	var b strings.Builder
	if s, err := j.ParseSchedule(); err == nil && s != nil {
		fmt.Fprintf(&b, "\nSchedule:\n  %s\n", scheduleWords(s, j.TimeZone))
		for _, h := range s.Hints() {
			fmt.Fprintf(&b, "  hint: %s\n", h)
		}
	}
	if j.Recurring() && len(t.Times) > 0 {
		b.WriteString("\nNext runs:\n" + timesTable(t.Times, j.Location(), now))
	}
	if j.Recurring() && t.End != nil {
		fmt.Fprintf(&b, "\nNo more runs: %s\n", t.End.Text)
	}
	return b.String()
}

// scheduleWords says when a schedule fires, and in which zone if one is set.
func scheduleWords(s *schedule.Schedule, zone string) string {
	if zone == "" {
		return s.Describe()
	}
	return s.Describe() + ", in " + zone
}

// timesTable shows times in this machine's zone, in that of the schedule, and from now, with what is to be
// known of them.
func timesTable(times []carillon.PlannedTime, zone *time.Location, now time.Time) string {
	head := []string{"LOCAL", "IN " + strings.ToUpper(zone.String()), "FROM NOW"}
	if slices.ContainsFunc(times, func(t carillon.PlannedTime) bool { return timeNotes(&t) != "" }) {
		head = append(head, "NOTE")
	}
	return table(head, times, func(t *carillon.PlannedTime) []string {
		at := t.Scheduled
		all := []string{localTime(at), at.In(zone).Format("Mon 2006-01-02 15:04:05 MST"), ago(at, now),
			timeNotes(t)}
		return all[:len(head)]
	})
}

// timeNotes says that a time waits, how much later its run is due, and that clocks have changed before it.
func timeNotes(t *carillon.PlannedTime) string {
	var clocks, waits, jitter string
	switch {
	case t.Shift > 0:
		clocks = "clocks go forward by " + t.Shift.String()
	case t.Shift < 0:
		clocks = "clocks go back by " + (-t.Shift).String()
	}
	if t.Past {
		waits = "due, and waits"
	}
	if by := t.Due.Sub(t.Scheduled); by > 0 {
		jitter = "due " + by.String() + " later by its jitter"
	}
	return commas(waits, clocks, jitter)
}
