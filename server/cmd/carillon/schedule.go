package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
)

// newSchedule returns the command `carillon schedule`.
func newSchedule(a app) *cobra.Command {
	return newGroup("schedule", "Try out schedules", newSchedulePreview(a))
}

// schedulePreview holds the flags of `carillon schedule preview`.
type schedulePreview struct {
	connection
	query carillon.PreviewQuery
	dst   choice
	from  string
	due   string
}

// newSchedulePreview returns the command `carillon schedule preview`.
func newSchedulePreview(a app) *cobra.Command {
	p := schedulePreview{dst: choice{words: dstWords}}
	cmd := &cobra.Command{
		Use:   "preview EXPR",
		Short: "Say when a schedule would fire",
		Long:  "Say when a schedule would fire. It needs a node only for the calendars of --except and --only.",
		Example: `carillon schedule preview "0 0 2 * * *" --time-zone Europe/London --count 5
carillon schedule preview "@every 90m" --from 2027-01-01T00:00:00Z
carillon schedule preview "0 9 * * MON-FRI; 0 12 * * SAT" --except uk-holidays`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, words []string) error { return p.run(cmd, a, words[0]) },
	}
	cmd.Flags().StringVar(&p.query.TimeZone, "time-zone", "", "IANA time `zone`; default UTC")
	zoneFlag(cmd)
	p.dst.add(cmd, "dst", "what a cron does when clocks change")
	cmd.Flags().StringVar(&p.from, "from", "", "show times after this `time`: RFC 3339, or for example 2027-03-28 or \"monday 09:00\"; default now")
	cmd.Flags().StringVar(&p.due, "due-time", "", "first run as in a job: a `time`, or a duration after --from")
	cmd.Flags().IntVar(&p.query.Count, "count", 10, "how many times")
	cmd.Flags().StringArrayVar(&p.query.Except, "except", nil, "leave out times in this `calendar`; repeatable")
	cmd.Flags().StringArrayVar(&p.query.Only, "only", nil, "show only times in this `calendar`; repeatable")
	p.connection.add(cmd)
	return cmd
}

// calendars reads the calendars that are named from a node.
func (p *schedulePreview) calendars(cmd *cobra.Command) (all []carillon.Calendar, err error) {
	rules := carillon.CalendarRules{Except: p.query.Except, Only: p.query.Only}
	if len(rules.Names()) == 0 {
		return nil, nil
	}
	if err := rules.Validate(); err != nil {
		return nil, err
	}
	err = p.call(cmd, func(ctx context.Context, node *client.Client) error {
		for _, name := range rules.Names() {
			c, err := node.GetCalendar(ctx, p.namespace, name)
			if err != nil {
				return err
			}
			all = append(all, c)
		}
		return nil
	})
	return all, err
}

func (p *schedulePreview) run(cmd *cobra.Command, a app, expr string) error {
	q := p.query
	q.Schedule, q.DST, q.Due = expr, carillon.DST(p.dst.chosen), carillon.WhenText(p.due)
	if p.from != "" {
		var err error
		if q.From, err = flagTime("from", p.from); err != nil {
			return err
		}
	}
	now := time.Now()
	calendars, err := p.calendars(cmd)
	if err != nil {
		return err
	}
	times, err := carillon.Preview(q, now, calendars...)
	if err != nil {
		return err
	}
	var hints []string
	job := carillon.Job{Schedule: q.Schedule, TimeZone: q.TimeZone}
	if s, err := job.ParseSchedule(); err == nil && s != nil { // the preview accepted it
		hints = s.Hints()
		for _, w := range s.Warnings() {
			a.sayf("warning: schedule: %s", w)
		}
		for _, h := range hints[len(s.Warnings()):] {
			a.sayf("hint: schedule: %s", h)
		}
		if !structured(cmd) {
			a.sayf("%s", scheduleWords(s, q.TimeZone))
		}
	}
	got := answer{message: wire.TimesToProto(times, hints), text: timesText(times, q.TimeZone)}
	if len(times) == 0 {
		got.note = fmt.Sprintf("It does not fire after %s.", cmp.Or(moment(q.From), moment(now)))
	}
	return a.answer(cmd, got)
}

// timesText returns one time per line, in the zone of the schedule.
func timesText(times []time.Time, zone string) string {
	loc, err := time.LoadLocation(zone)
	if err != nil {
		loc = time.UTC // the preview accepted it
	}
	var b strings.Builder
	for _, t := range times {
		b.WriteString(t.In(loc).Format("Mon 2006-01-02 15:04:05.999999999 Z07:00 MST") + "\n")
	}
	return b.String()
}
