package checker

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"time"
)

//go:embed timeline.html
var timelineText string

var timelinePage = template.Must(template.New("timeline").Parse(timelineText))

// Sizes of the timeline, in pixels.
const (
	lineHeight = 18
	leftMargin = 180
	plotWidth  = 1400
)

// chart is the timeline as its page needs it.
type chart struct {
	Verdict       Verdict
	Width, Height int
	Plot          int
	Left          int
	Faults        []box
	Rows          []row
	Ticks         []tick
}

type row struct {
	Name    string
	Y       int
	Windows []box
	Bars    []box
}

type box struct {
	X, W, Y, H float64
	Class      string
	Title      string
}

type tick struct {
	X     float64
	Label string
}

// WriteTimeline writes one page that shows a history: a row for each job, the times that had to run as
// windows (green, or red if nothing ran), attempts as bars by how they ended, faults shaded. It needs nothing
// from anywhere else.
func WriteTimeline(w io.Writer, h History, v Verdict) error {
	if err := timelinePage.Execute(w, draw(h, v)); err != nil {
		return fmt.Errorf("checker: write the timeline: %w", err)
	}
	return nil
}

func draw(h History, v Verdict) chart {
	world := index(&h)
	scale := float64(plotWidth) / max(h.End.Sub(h.Start).Seconds(), 1e-9)
	x := func(t time.Time) float64 { return leftMargin + min(max(t.Sub(h.Start).Seconds(), 0)*scale, plotWidth) }
	c := chart{Verdict: v, Plot: plotWidth, Left: leftMargin, Width: leftMargin + plotWidth + 20}
	rows := map[key]int{}
	for _, k := range world.keys {
		if len(world.jobs[k].runs)+len(world.jobs[k].effects) > 0 {
			rows[k] = len(c.Rows)
			c.Rows = append(c.Rows, row{Name: k.String(), Y: (len(c.Rows) + 1) * lineHeight})
		}
	}
	c.Height = (len(c.Rows) + 3) * lineHeight
	for _, f := range h.Faults {
		c.Faults = append(c.Faults, box{X: x(f.From), W: max(x(f.To)-x(f.From), 1),
			H: float64(c.Height), Class: "fault",
			Title: fmt.Sprintf("%s %v, %v to %v", f.Kind, f.Targets, f.From.Sub(h.Start), f.To.Sub(h.Start))})
	}
	for _, m := range v.windows {
		i, ok := rows[m.job.key]
		if !ok {
			continue
		}
		class := "met"
		if m.first == nil && !m.skip || m.first != nil && m.first.At.After(m.by) {
			class = "unmet"
		}
		c.Rows[i].Windows = append(c.Rows[i].Windows,
			box{X: x(m.at), W: max(x(m.by)-x(m.at), 1), Y: float64(c.Rows[i].Y), H: lineHeight - 3,
				Class: class, Title: fmt.Sprintf("due %v, by %v", m.at.Sub(h.Start), m.by.Sub(h.Start))})
	}
	for _, id := range world.ids {
		r := world.runs[id]
		i := rows[r.job.key]
		for n := range r.attempts {
			c.Rows[i].Bars = append(c.Rows[i].Bars, bar(world, r, n, x, float64(c.Rows[i].Y)))
		}
	}
	for i := range 11 {
		at := h.End.Sub(h.Start) / 10 * time.Duration(i)
		c.Ticks = append(c.Ticks, tick{x(h.Start.Add(at)), at.Round(time.Millisecond).String()})
	}
	return c
}

// bar is one attempt.
func bar(w *world, r *run, n int, x func(time.Time) float64, y float64) box {
	a := r.attempts[n]
	end, class := a.At, "lost"
	for _, res := range r.results {
		if res.Token == a.Token && res.Kind != Progress {
			end, class = res.Sent, string(res.Kind)
			if res.Verdict == Stale {
				class = "stale"
			}
		}
	}
	if end.Equal(a.At) && class == "lost" {
		end = w.possible(r, n).to
	}
	return box{X: x(a.At), W: max(x(end)-x(a.At), 1.5), Y: y + 4, H: lineHeight - 11, Class: class,
		Title: fmt.Sprintf("%s attempt %d, %s, scheduled %v, at %v, worker %s, %s", a.RunID, a.Number,
			a.Cause, a.Scheduled.Sub(w.h.Start),
			a.At.Sub(w.h.Start), a.Worker, class)}
}
