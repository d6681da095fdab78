package main

import (
	"context"
	"fmt"
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
	page,
		err := node.ListRuns(ctx, carillon.RunQuery{Namespace: j.Namespace, Job: j.Name, PageSize: describedRuns})
	if err != nil {
		return "", err
	}
	calendars, err := namedCalendars(ctx, node, j)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(description(append([]field{{"name", j.Name}, {"namespace", j.Namespace},
		{"left out", leftOut(j, calendars, now)}}, statusFields(j, now)...)))
	b.WriteString("\nSet:\n")
	for line := range strings.Lines(string(spec)) {
		b.WriteString("  " + line)
	}
	b.WriteString(scheduleText(j, calendars, now))
	if len(page.Runs) > 0 {
		b.WriteString("\nRuns:\n" + runColumns.grid(page.Runs).render(false, display{width: on.width}))
	}
	return b.String(), nil
}

// namedCalendars reads the calendars that a job names, those that there are.
func namedCalendars(ctx context.Context, node *client.Client, j *carillon.Job) (all []carillon.Calendar,
	err error) {
	for _, name := range j.Calendars.Names() {
		cal, err := node.GetCalendar(ctx, j.Namespace, name)
		switch {
		case err == nil:
			all = append(all, cal)
		case carillon.KindOf(err) != carillon.NotFound:
			return nil, err
		}
	}
	return all, nil
}

// scheduleText says in words when a job runs, what may be meant otherwise, and the next times.
func scheduleText(j *carillon.Job, calendars []carillon.Calendar, now time.Time) string {
	s, err := j.ParseSchedule()
	if err != nil || s == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nSchedule:\n  %s\n", scheduleWords(s, j.TimeZone))
	for _, h := range s.Hints() {
		fmt.Fprintf(&b, "  hint: %s\n", h)
	}
	if times := nextTimes(j, s, calendars); len(times) > 0 {
		b.WriteString("\nNext runs:\n" + timesTable(times, j.Location(), now))
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

// timesTable shows times in this machine's zone, in that of the schedule, and from now.
func timesTable(times []time.Time, zone *time.Location, now time.Time) string {
	return table([]string{"LOCAL", "IN " + strings.ToUpper(zone.String()), "FROM NOW"}, times,
		func(t *time.Time) []string {
			return []string{localTime(*t), t.In(zone).Format("Mon 2006-01-02 15:04:05 MST"), ago(*t, now)}
		})
}
