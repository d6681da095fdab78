package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
)

// calendar is the one that jobs with [checker.Job.Off] have.
const calendar = "off"

// The profiles with jobs some of whose times a calendar excludes.
var (
	// Dates is on one node, which is killed.
	Dates = Profile{Name: "dates", Busy: 45 * time.Second, Calm: 60 * time.Second, Ops: 100, Dated: true,
		Faults: []FaultKind{Kill, StreamCut}, Storms: 4, Habits: true, HTTP: true, Crons: true, Kinds: dated}
	// DatesOfACluster is among nodes that come, leave and are killed.
	DatesOfACluster = Profile{Name: "dates of a cluster", Busy: 40 * time.Second, Calm: 45 * time.Second,
		Ops: 80, Dated: true, Storms: 6, HTTP: true, Crons: true, Kinds: dated, Cluster: true, Habits: true,
		Faults: []FaultKind{Departs, Kill, Kill, Cut, CutStore, Halt}}
)

// dated are the operations of clients but for backfills, which leave out what calendars exclude, too.
var dated = slices.DeleteFunc(slices.Clone(usual), func(w Weight) bool { return w.Kind == checker.Backfill })

// dates draws what the calendar of the plan excludes: whole seconds, as calendars have them.
func (g *generator) dates() {
	at := g.plan.Start.Truncate(time.Second)
	for range 1 + g.r.IntN(3) {
		at = at.Add(time.Duration(3+g.r.IntN(12)) * time.Second)
		s := checker.Stretch{From: at.UTC(), To: at.Add(time.Duration(1+g.r.IntN(10)) * time.Second).UTC()}
		g.plan.Off = append(g.plan.Off, s)
		at = s.To
	}
}

// putCalendar puts the calendar of the plan, if it has one, before anything else.
func (w *world) putCalendar(ctx context.Context) error {
	c := carillon.Calendar{Name: calendar}
	for _, s := range w.plan.Off {
		c.Dates = append(c.Dates, s.From.Format(time.RFC3339)+"/"+s.To.Format(time.RFC3339))
	}
	for _, c.Namespace = range w.plan.namespaces() {
		if len(c.Dates) == 0 {
			break
		}
		if _, err := w.nodes[0].life().scheduler().PutCalendar(ctx, c); err != nil {
			return fmt.Errorf("sim: the calendar: %w", err)
		}
	}
	return nil
}
