package main

import (
	"cmp"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/clipperhouse/displaywidth"
	"golang.org/x/term"
)

// paint is a colour of a terminal: the number of an ANSI sequence.
type paint string

// The colours that tables use.
const (
	plain  paint = ""
	bold   paint = "1"
	red    paint = "31"
	green  paint = "32"
	yellow paint = "33"
	blue   paint = "34"
	grey   paint = "90"
)

// display is what a table is shown on. The zero value is no terminal: nothing is shortened or coloured.
type display struct {
	width  int // in columns; 0: no limit
	colour bool
}

// display returns what results are shown on.
func (a app) display() display {
	if a.on != nil {
		return *a.on
	}
	f, ok := a.raw.(*os.File)
	if !ok || !isTerminal(f) {
		return display{}
	}
	d := display{colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if width, _, err := term.GetSize(int(f.Fd())); err == nil {
		d.width = width
	}
	return d
}

// gridCell is a text of a table.
type gridCell struct {
	text  string
	paint paint
}

// gridColumn is a column of a table for people.
type gridColumn struct {
	name string
	wide bool // shown with -o wide alone
	clip bool // may be shortened to what a terminal has room for
	less bool // left out where there is no room even so
}

// grid is a table for people.
type grid struct {
	columns []gridColumn
	rows    [][]gridCell
}

// render returns the table for a display; wide is what -o wide asks for.
func (g *grid) render(wide bool, d display) string {
	var shown []int
	for i, c := range g.columns {
		if wide || !c.wide {
			shown = append(shown, i)
		}
	}
	widths := g.fit(shown, d.width, false)
	for i := len(shown) - 1; i >= 0 && d.width > 0 && lineWidth(widths) > d.width; i-- {
		if g.columns[shown[i]].less {
			shown = slices.Delete(shown, i, i+1)
			widths = g.fit(shown, d.width, false)
		}
	}
	if !wide { // which shows whole names
		widths = g.fit(shown, d.width, true)
	}
	var b strings.Builder
	heading := make([]gridCell, len(g.columns))
	for i, c := range g.columns {
		heading[i] = gridCell{c.name, bold}
	}
	for _, row := range append([][]gridCell{heading}, g.rows...) {
		var line strings.Builder
		for n, i := range shown {
			text := shorten(safe(row[i].text), widths[n])
			pad := ""
			if n < len(shown)-1 {
				pad = strings.Repeat(" ", 2+widths[n]-displaywidth.String(text))
			}
			if d.colour && row[i].paint != plain && text != "" {
				text = "\x1b[" + string(row[i].paint) + "m" + text + "\x1b[0m"
			}
			line.WriteString(text + pad)
		}
		b.WriteString(line.String() + "\n")
	}
	return b.String()
}

// safe returns a text that stays in its row and column, without characters that a terminal acts upon.
func safe(text string) string { return visibleText(oneLine.Replace(text)) }

// Widths to which a column is shortened at most: one that may be clipped, and any where nothing else is left.
const (
	leastClipped = 10
	leastForced  = 4
)

// fit returns the widths of the shown columns. If they are too wide for the display, those that may be
// clipped lose what is too much, the widest first; then, if they are forced to, the others and the headings.
func (g *grid) fit(shown []int, room int, force bool) []int {
	widths := make([]int, len(shown))
	for n, i := range shown {
		widths[n] = displaywidth.String(g.columns[i].name)
		for _, row := range g.rows {
			widths[n] = max(widths[n], displaywidth.String(safe(row[i].text)))
		}
	}
	g.narrow(shown, widths, room, func(c *gridColumn) (least int) {
		if !c.clip {
			return math.MaxInt
		}
		return max(leastClipped, displaywidth.String(c.name))
	})
	if force {
		g.narrow(shown, widths, room, func(*gridColumn) int { return leastForced })
	}
	return widths
}

// narrow takes what is too much from the widest columns, none of which gets narrower than its least width. A
// terminal that is too narrow even so wraps lines.
func (g *grid) narrow(shown, widths []int, room int, least func(*gridColumn) int) {
	for total := lineWidth(widths); room > 0 && total > room; total-- {
		widest := -1
		for n, i := range shown {
			if widths[n] > least(&g.columns[i]) && (widest < 0 || widths[n] > widths[widest]) {
				widest = n
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

// lineWidth is how wide a line of columns is.
func lineWidth(widths []int) int {
	total := 2 * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	return total
}

// shorten shortens a text to a number of columns.
func shorten(text string, width int) string {
	if displaywidth.String(text) <= width {
		return text
	}
	return displaywidth.TruncateString(text, width, "…")
}

// padded fills a text with spaces up to a number of columns.
func padded(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-displaywidth.String(text)))
}

// column is a column of a list of things, for tables and for --sort.
type column[T any] struct {
	gridColumn
	cell  func(*T) string
	paint func(*T) paint    // nil: none
	order func(a, b *T) int // nil: by the text
}

// columns are those of a list.
type columns[T any] []column[T]

// grid returns the table of things.
func (cs columns[T]) grid(items []T) *grid {
	g := &grid{}
	for _, c := range cs {
		g.columns = append(g.columns, c.gridColumn)
	}
	for i := range items {
		row := make([]gridCell, 0, len(cs))
		for _, c := range cs {
			one := gridCell{text: c.cell(&items[i])}
			if c.paint != nil {
				one.paint = c.paint(&items[i])
			}
			row = append(row, one)
		}
		g.rows = append(g.rows, row)
	}
	return g
}

// words returns the names of the columns as --sort takes them.
func (cs columns[T]) words() (words []string) {
	for _, c := range cs {
		words = append(words, strings.ReplaceAll(strings.ToLower(c.name), " ", "-"))
	}
	return words
}

// sort sorts things by a column, which words has; a minus before it means the other way round.
func (cs columns[T]) sort(items []T, by string) {
	name, down := strings.CutPrefix(by, "-")
	n := slices.Index(cs.words(), name)
	if n < 0 {
		return
	}
	order := cs[n].order
	if order == nil {
		order = func(a, b *T) int { return cmp.Compare(cs[n].cell(a), cs[n].cell(b)) }
	}
	slices.SortStableFunc(items, func(a, b T) int {
		if down {
			a, b = b, a
		}
		return order(&a, &b)
	})
}

// rowColumns are the columns of a list whose rows a function returns. Numbers are sorted as such.
func rowColumns[T any](row func(*T) []string, heading ...string) columns[T] {
	var cs columns[T]
	for i, name := range heading {
		cs = append(cs, column[T]{gridColumn: gridColumn{name: name, clip: i > 0},
			cell: func(v *T) string { return row(v)[i] },
			order: func(a, b *T) int {
				x, y := row(a)[i], row(b)[i]
				n, err := strconv.Atoi(x)
				m, other := strconv.Atoi(y)
				if err == nil && other == nil {
					return cmp.Compare(n, m)
				}
				return cmp.Compare(x, y)
			}})
	}
	return cs
}
