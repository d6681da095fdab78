package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/carillonhq/carillon"
)

// topModel is what `carillon top` shows, and how it goes on.
type topModel struct {
	look              func() tea.Msg
	every             time.Duration
	server, namespace string
	colour            bool

	data          topData
	width, height int
	stopped       bool
}

// topTick says that it is time to look again.
type topTick struct{}

func (m topModel) Init() tea.Cmd { return m.look }

// Update implements tea.Model.
func (m topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		switch msg.String() {
		case "q", "esc", "ctrl+c":
			return m, tea.Quit
		case "space":
			m.stopped = !m.stopped
		}
	case topData:
		if !m.stopped {
			m.data = msg
		}
		return m, tea.Tick(m.every, func(time.Time) tea.Msg { return topTick{} })
	case topTick:
		return m, m.look
	}
	return m, nil
}

// View implements tea.Model.
func (m topModel) View() tea.View {
	v := tea.NewView(m.render())
	v.AltScreen = true
	return v
}

// render returns the lines that the terminal has room for.
func (m topModel) render() string {
	d := &m.data
	if d.at.IsZero() {
		return "waiting for " + safe(m.server) + " …"
	}
	sections := []struct {
		title string
		table *grid
	}{{"QUEUES", queueGrid(d.queues, d.at)}, {"FAILING JOBS", failingGrid(d.failing, d.at)},
		{"NODES", nodeGrid(d.nodes)}}
	lines := []string{m.headline()}
	for _, p := range d.problems {
		lines = append(lines, m.painted(red, safe(p)))
	}
	room := m.height - len(lines) - 2 // the last line, and one to spare
	for i, s := range sections {
		share := max(1, (room/(len(sections)-i))-3) // its title, its heading and a blank line
		shown := *s.table
		left := max(0, len(shown.rows)-share)
		shown.rows = shown.rows[:len(shown.rows)-left]
		text := strings.TrimSuffix(shown.render(false, display{width: m.width, colour: m.colour}), "\n")
		title := s.title
		if left > 0 {
			title += fmt.Sprintf(" (%d more)", left)
		}
		part := append([]string{"", m.painted(bold, title)}, strings.Split(text, "\n")...)
		room -= len(part)
		lines = append(lines, part...)
	}
	if m.height > 1 && len(lines) > m.height-1 {
		lines = lines[:m.height-1]
	}
	return strings.Join(append(lines, m.painted(grey, "q quit · space stop")), "\n")
}

func (m topModel) painted(p paint, text string) string {
	if m.width > 0 {
		text = shorten(text, m.width)
	}
	if !m.colour {
		return text
	}
	return "\x1b[" + string(p) + "m" + text + "\x1b[0m"
}

func (m topModel) headline() string {
	d := &m.data
	waiting, inFlight, oldest := 0, 0, time.Time{}
	for i := range d.queues {
		q := &d.queues[i]
		waiting, inFlight = waiting+q.Waiting(), inFlight+q.InFlight
		if !q.Oldest.IsZero() && (oldest.IsZero() || q.Oldest.Before(oldest)) {
			oldest = q.Oldest
		}
	}
	text := fmt.Sprintf("%s · backlog %d · in flight %d · lateness %s · namespace %s · %s",
		d.at.Local().Format("15:04:05"), waiting, inFlight, dash(lateness(oldest, d.at)), m.namespace, m.server)
	if d.more {
		text += " · not all is shown"
	}
	if m.stopped {
		text += " · STOPPED"
	}
	return m.painted(bold, safe(text))
}

// lateness is how long something waits already.
func lateness(oldest, now time.Time) string {
	if oldest.IsZero() || !now.After(oldest) {
		return ""
	}
	return roughly(now.Sub(oldest))
}

func gridOf(rows [][]gridCell, heading ...string) *grid {
	g := &grid{rows: rows}
	for _, h := range heading {
		g.columns = append(g.columns, gridColumn{name: h, clip: true})
	}
	return g
}

func queueGrid(queues []carillon.Queue, now time.Time) *grid {
	var rows [][]gridCell
	for i := range queues {
		q := &queues[i]
		state, colour := "served", green
		switch {
		case !q.Pause.Since.IsZero():
			state, colour = "paused", grey
		case q.Unserved:
			state, colour = "unserved", red
		case q.Waiting() > 0:
			state, colour = "backlog", yellow
		}
		rows = append(rows,
			[]gridCell{{text: q.Namespace}, {text: q.Kind}, {text: q.Name}, {text: strconv.Itoa(q.Waiting())},
				{text: dash(lateness(q.Oldest, now))}, {text: strconv.Itoa(q.InFlight)}, {text: consumersText(q)},
				{state, colour}})
	}
	return gridOf(rows, "NAMESPACE", "KIND", "QUEUE", "BACKLOG", "LATENESS", "IN FLIGHT", "CONSUMERS", "STATE")
}

func failingGrid(jobs []failing, now time.Time) *grid {
	var rows [][]gridCell
	for _, f := range jobs {
		rows = append(rows, []gridCell{{text: f.job}, {strconv.Itoa(f.failed), red}, {strconv.Itoa(f.dead), red},
			{strconv.Itoa(f.retrying), yellow}, {text: dash(ago(f.last, now))}, {text: dash(clip(f.lastReason, 300))}})
	}
	return gridOf(rows, "JOB", "FAILED", "DEAD", "RETRYING", "LAST", "WHY")
}

func nodeGrid(nodes []carillon.Node) *grid {
	var rows [][]gridCell
	for i := range nodes {
		row := nodeRow(&nodes[i])
		cells := make([]gridCell, 0, len(row))
		for _, text := range row {
			cells = append(cells, gridCell{text: text})
		}
		rows = append(rows, cells)
	}
	return gridOf(rows, nodeHeading...)
}
