package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/icalendar"
)

// newCalendar returns the command `carillon calendar`.
func newCalendar(a app) *cobra.Command {
	return newGroup("calendar", "Named sets of dates, to which schedules refer", newCalendarPut(a),
		newCalendarImport(a), newCalendarGet(a), newCalendarList(a), newCalendarDelete(a))
}

// calendarPut holds the flags of `carillon calendar put`, and of what else puts calendars.
type calendarPut struct {
	connection
	calendar carillon.Calendar
}

func (p *calendarPut) add(cmd *cobra.Command, zone string) {
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&p.calendar.TimeZone, "time-zone", "", zone)
	zoneFlag(cmd)
	cmd.Flags().StringVar(&p.calendar.Note, "note", "", "a note for people")
	cmd.Flags().Uint64Var(&p.calendar.Generation, "if-generation", 0,
		"only over this `generation` of the calendar; 0 is any")
	p.connection.add(cmd)
}

// put puts the calendar.
func (p *calendarPut) put(ctx context.Context, node *client.Client, words []string) (answer, error) {
	p.calendar.Namespace, p.calendar.Name = p.namespace, words[0]
	c, err := node.PutCalendar(ctx, p.calendar)
	return calendarAnswer(&c), err
}

// newCalendarPut returns the command `carillon calendar put`.
func newCalendarPut(a app) *cobra.Command {
	var p calendarPut
	cmd := &cobra.Command{
		Use:   "put NAME",
		Short: "Store a calendar, or replace it as a whole",
		Long: "Store a calendar, or replace it as a whole. A date is a day, a day of every year, the same from and to with a \"/\" between\n" +
			"them, or a span between two RFC 3339 times. Jobs that name the calendar by --except or --only go by it at once.",
		Example: `carillon calendar put uk-holidays --time-zone Europe/London --date 12-25/12-26 --date 01-01 --date 2027-03-26
carillon calendar put freeze --date 2026-12-20T18:00:00Z/2027-01-04T06:00:00Z --note "no deployments"`,
		Args: arguments(1, 1),
		RunE: p.ask(a, p.put),
	}
	cmd.Flags().StringArrayVar(&p.calendar.Dates, "date", nil,
		"a `date`: 2026-12-25, 12-25, 2026-12-24/2027-01-01, 12-24/01-01 or TIME/TIME; repeatable")
	p.add(cmd, "IANA time `zone` of days; default UTC")
	return cmd
}

// calendarImport holds the flags of `carillon calendar import`.
type calendarImport struct {
	calendarPut
	from, until string
	dryRun      bool
}

// importYears is how far ahead events are read by default.
const importYears = 5

// newCalendarImport returns the command `carillon calendar import`.
func newCalendarImport(a app) *cobra.Command {
	var p calendarImport
	cmd := &cobra.Command{
		Use:   "import NAME FILE",
		Short: "Store a calendar of the events of an iCalendar file",
		Long: "Store a calendar of the dates on which the events of an iCalendar file (.ics) take place, or replace it as a whole. - reads\n" +
			"standard input. Events that repeat without end are read up to --until: import the file again before then. An event that is\n" +
			"not understood is named, and nothing is stored.",
		Example: `carillon calendar import uk-holidays bank-holidays.ics --time-zone Europe/London
curl -sf https://example.com/holidays.ics | carillon calendar import holidays - --dry-run`,
		Args: arguments(2, 2),
		RunE: func(cmd *cobra.Command, words []string) error { return p.run(cmd, a, words) },
	}
	p.add(cmd, "IANA time `zone` of days, and of times without one; default that of the file, or UTC")
	cmd.Flags().StringVar(&p.from, "from", "", "leave out what ends before this `date`; default a year ago")
	cmd.Flags().StringVar(&p.until, "until", "",
		fmt.Sprintf("leave out what begins on this `date` or later; default in %d years", importYears))
	cmd.Flags().BoolVar(&p.dryRun, "dry-run", false, "show the calendar, and store nothing")
	return cmd
}

func (p *calendarImport) run(cmd *cobra.Command, a app, words []string) error {
	dates, err := p.read(a, words[1])
	if err != nil {
		return err
	}
	if dates.Endless {
		a.sayf("warning: some events repeat without end; they were read up to --until")
	}
	p.calendar.TimeZone, p.calendar.Dates = dates.Location.String(), dates.Dates
	if !p.dryRun {
		return p.ask(a, p.put)(cmd, words[:1])
	}
	p.resolve(cmd)
	p.calendar.Namespace, p.calendar.Name = p.namespace, words[0]
	if err := p.calendar.Validate(); err != nil {
		return err
	}
	got := calendarAnswer(&p.calendar)
	got.note = fmt.Sprintf("%d events take place on these dates; nothing was stored.", dates.Events)
	return a.answer(cmd, got)
}

// read reads the dates of a file.
func (p *calendarImport) read(a app, path string) (*icalendar.Dates, error) {
	now := time.Now().UTC()
	o := icalendar.Options{From: now.AddDate(-1, 0, 0), Until: now.AddDate(importYears, 0, 0)}
	for _, f := range []struct {
		name, text string
		to         *time.Time
	}{{"from", p.from, &o.From}, {"until", p.until, &o.Until}} {
		if f.text == "" {
			continue
		}
		var err error
		if *f.to, err = time.Parse(time.DateOnly, f.text); err != nil {
			return nil, usagef("--%s: %q is no date such as 2026-12-25", f.name, clip(f.text, 40))
		}
	}
	if !o.Until.After(o.From) {
		return nil, usagef("--until: %s is not after %s, from which events are read", o.Until.Format(time.DateOnly),
			o.From.Format(time.DateOnly))
	}
	if p.calendar.TimeZone != "" {
		job := carillon.Calendar{Name: "x", TimeZone: p.calendar.TimeZone}
		if err := job.Validate(); err != nil {
			return nil, err
		}
		o.Location, _ = time.LoadLocation(p.calendar.TimeZone) // it is valid
	}
	in := a.in
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, cannotRead("FILE", path, err)
		}
		defer file.Close()
		in = io.Reader(file)
	}
	dates, err := icalendar.Read(in, o)
	if err != nil {
		return nil, usagef("%s: %s", path, err)
	}
	if len(dates.Dates) == 0 {
		return nil, usagef("%s: no event takes place from %s to %s, and nothing is stored; `carillon calendar put` stores a calendar without dates",
			path, o.From.Format(time.DateOnly), o.Until.Format(time.DateOnly))
	}
	return dates, nil
}

// newCalendarGet returns the command `carillon calendar get`.
func newCalendarGet(a app) *cobra.Command {
	var c connection
	var r repeated
	cmd := c.inNamespace(a, "get NAME", "Show a calendar", nil)
	r.one(cmd, a, &c,
		func(ctx context.Context, node *client.Client, words []string) (answer, error) {
			cal, err := node.GetCalendar(ctx, c.namespace, words[0])
			return calendarAnswer(&cal), err
		})
	cmd.ValidArgsFunction = c.first(c.calendarNames)
	return cmd
}

// calendarList holds the flags of `carillon calendar list`.
type calendarList struct {
	connection
	listing
}

// newCalendarList returns the command `carillon calendar list`.
func newCalendarList(a app) *cobra.Command {
	var l calendarList
	cmd := l.inNamespace(a, "list", "List the calendars of a namespace", nil)
	cmd.Aliases = []string{"ls"}
	l.listing.add(cmd, a, &l.connection, calendarColumns.words(), l.list)
	return cmd
}

func (l *calendarList) list(ctx context.Context, node *client.Client, _ []string) (answer, error) {
	all, rest,
		err := collectSorted(l.listing, calendarColumns,
		func(token string, size int) ([]carillon.Calendar, string, error) {
			page, err := node.ListCalendars(ctx,
				carillon.CalendarQuery{Namespace: l.namespace, PageToken: token, PageSize: size})
			return page.Calendars, page.NextPageToken, err
		})
	return answer{message: wire.CalendarPageToProto(carillon.CalendarPage{Calendars: all, NextPageToken: rest}),
		grid: calendarColumns.grid(all), note: moreNote(len(all), rest),
		names: namesOf(all, func(c *carillon.Calendar) string { return c.Name })}, err
}

var calendarColumns = rowColumns(calendarRow, "NAME", "GENERATION", "TIME ZONE", "DATES", "NOTE")

func calendarRow(c *carillon.Calendar) []string {
	return []string{c.Name, strconv.FormatUint(c.Generation, 10), dash(c.TimeZone), strconv.Itoa(len(c.Dates)),
		clip(dash(c.Note), 40)}
}

// newCalendarDelete returns the command `carillon calendar delete`.
func newCalendarDelete(a app) *cobra.Command {
	var c connection
	var generation uint64
	cmd := c.inNamespace(a, "delete NAME", "Remove a calendar; jobs that name it go on as if they did not",
		func(ctx context.Context, node *client.Client, words []string) (answer, error) {
			err := node.DeleteCalendar(ctx, c.namespace, words[0], carillon.IfGeneration(generation))
			return answer{message: &pb.DeleteCalendarResponse{Deleted: err == nil},
				text: words[0] + " deleted\n"}, err
		})
	cmd.Aliases = []string{"rm"}
	cmd.ValidArgsFunction = c.first(c.calendarNames)
	cmd.Flags().Uint64Var(&generation, "if-generation", 0, "only this `generation` of the calendar; 0 is any")
	return cmd
}

// calendarAnswer describes a calendar.
func calendarAnswer(c *carillon.Calendar) answer {
	return answer{message: wire.CalendarToProto(c), names: []string{c.Name}, text: description([]field{
		{"name", c.Name}, {"namespace", c.Namespace}, {"time zone", c.TimeZone}, {"note", c.Note},
		{"generation", unlessZero("%d", c.Generation)}, {"dates", strings.Join(c.Dates, " ")}})}
}
