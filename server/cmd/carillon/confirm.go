package main

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// confirmation holds the flags of a command that changes many things at once. It shows them and their number,
// and asks.
type confirmation struct {
	yes    bool
	dryRun bool
}

func (c *confirmation) add(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "show what would be done, and do nothing")
	exclusive(cmd, "yes", "dry-run")
}

// needless returns a flag that has no effect on a command about a single thing, "" if none is given.
func (c *confirmation) needless() string {
	switch {
	case c.yes:
		return "yes"
	case c.dryRun:
		return "dry-run"
	}
	return ""
}

// shownAtMost is how many of the things are listed by name, and countedAtMost up to how many are counted.
const (
	shownAtMost   = 10
	countedAtMost = 10_000
)

// many is what a command is about to change.
type many struct {
	names []string // names of the first ones
	n     int      // number of things counted
	more  bool     // there are others that were not counted
}

// add counts one, and reports whether the rest should be counted too.
func (m *many) add(name string) bool {
	if m.n == countedAtMost {
		m.more = true
		return false
	}
	if m.n++; m.n <= shownAtMost {
		m.names = append(m.names, name)
	}
	return true
}

// String returns the number, with "at least" if not all were counted.
func (m *many) String() string {
	if m.more {
		return fmt.Sprintf("more than %d", m.n)
	}
	return strconv.Itoa(m.n)
}

// dryRunResult is what a dry run prints with -o json.
type dryRunResult struct {
	Affected int      `json:"affected"`
	More     bool     `json:"more"` // there are more than were counted
	Names    []string `json:"names"`
}

// confirm shows what is about to be done and reports whether to do it. verb and noun are words like "delete"
// and "jobs".
func (c *confirmation) confirm(cmd *cobra.Command, a app, verb, noun string, m *many) (bool, error) {
	switch {
	case c.yes:
		return true, nil
	case c.dryRun && wantsJSON(cmd):
		return false, printJSON(a.out, dryRunResult{Affected: m.n, More: m.more, Names: append([]string{}, m.names...)})
	}
	for _, name := range m.names {
		a.sayf("  %s", name)
	}
	if m.n > len(m.names) {
		a.sayf("  … and %s in all", m)
	}
	switch {
	case c.dryRun:
		a.sayf("%s %s would be affected by %s.", m, noun, verb)
		return false, nil
	case m.n == 0:
		return true, nil // nothing to lose; the node will say so
	case !isTerminal(a.in):
		return false, usagef("this would %s %s %s; give --yes to do it, or --dry-run to look", verb, m, noun)
	}
	fmt.Fprintf(a.errs, "%s %s %s? [y/N] ", strings.ToUpper(verb[:1])+verb[1:], m, noun)
	answer, err := bufio.NewReader(a.in).ReadString('\n')
	if err != nil && answer == "" {
		return false, fmt.Errorf("no answer: %w", err)
	}
	if word := strings.ToLower(strings.TrimSpace(answer)); word != "y" && word != "yes" {
		a.sayf("Nothing was done.")
		return false, nil
	}
	return true, nil
}
