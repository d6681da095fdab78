package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// row is the result of one measure.
type row struct {
	Peer       string     `json:"peer"`
	Version    string     `json:"version"`
	Settings   string     `json:"settings"`
	Durable    string     `json:"durable"`
	Measure    string     `json:"measure"`
	Operations int        `json:"operations"`
	Seconds    float64    `json:"seconds,omitempty"`
	Rate       float64    `json:"rate,omitempty"`        // operations a second
	Latency    *quantiles `json:"latency_ms,omitempty"`  // of calls
	Lateness   *quantiles `json:"lateness_ms,omitempty"` // of runs
	CPU        float64    `json:"server_cpu_us_per_operation,omitempty"`
	Ledger     verdict    `json:"ledger"`
	Note       string     `json:"note,omitempty"`
}

// String is the row on one line.
func (r *row) String() string {
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", r.Peer, r.Settings, r.Measure, number(r.Rate, "%.0f/s"),
		r.times(), number(r.CPU, "%.0f µs"), r.Ledger, r.Note)
}

// times is how long calls took, or how late runs were.
func (r *row) times() string {
	switch {
	case r.Latency != nil:
		return fmt.Sprintf("call %.1f / %.1f ms", r.Latency.P50, r.Latency.P99)
	case r.Lateness != nil:
		return fmt.Sprintf("late %.1f / %.1f ms", r.Lateness.P50, r.Lateness.P99)
	}
	return "–"
}

// number is x in a format, or a dash for what was not measured.
func number(x float64, format string) string {
	if x == 0 {
		return "–"
	}
	return fmt.Sprintf(format, x)
}

// printTable prints the results, and above them what the settings mean.
func printTable(w io.Writer, took []contestant, rows []row) error {
	for _, c := range took {
		fmt.Fprintf(w, "%s, %s (%s): %s\n", c.peer, c.settings, c.durable, c.about)
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PEER\tSETTINGS\tMEASURE\tRATE\tP50 / P99\tSERVER CPU\tLEDGER\t")
	for i := range rows {
		fmt.Fprintln(t, rows[i].String())
	}
	return t.Flush()
}

// printJSON prints the results for programs.
func printJSON(w io.Writer, rows []row) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(rows)
}
