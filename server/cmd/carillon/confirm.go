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
	n     int      // how many, or more than are counted
	names []string // of the first few
}

// String returns their number.
func (m many) String() string {
	if m.n > countedAtMost {
		return fmt.Sprintf("more than %d", countedAtMost)
	}
	return strconv.Itoa(m.n)
}

// dryRunResult is what a dry run prints with -o json.
type dryRunResult struct {
	Affected int      `json:"affected"`
	More     bool     `json:"more"` // there are more than were counted
	Names    []string `json:"names"`
}

// confirm counts what is about to be changed and reports whether to do it. verb and noun are words like
// "delete" and "jobs". The node is called before the question: no call waits for the user's answer.
func (c *confirmation) confirm(cmd *cobra.Command, a app, verb, noun string,
	count func() (many, error)) (bool, error) {
	if c.yes {
		return true, nil // the number is not shown
	}
	found, err := count()
	if err != nil {
		return false, err
	}
	return c.decide(cmd, a, verb, noun, found)
}

// decide shows what is about to be done and reports whether to do it.
func (c *confirmation) decide(cmd *cobra.Command, a app, verb, noun string, found many) (bool, error) {
	shown := found.names[:min(len(found.names), shownAtMost)]
	if c.dryRun && structured(cmd) {
		return false, a.encode(cmd, dryRunResult{Affected: min(found.n, countedAtMost),
			More: found.n > countedAtMost, Names: append([]string{}, shown...)})
	}
	// Otherwise an error follows, and nothing else may stand there.
	if c.dryRun || isTerminal(a.in) || !structured(cmd) {
		for _, name := range shown {
			a.sayf("  %s", name)
		}
		if found.n > len(shown) {
			a.sayf("  … and %s in all", found)
		}
	}
	return c.leave(a, verb, noun, found.String())
}

// decideCount is decide where only the number is known.
func (c *confirmation) decideCount(cmd *cobra.Command, a app, verb, noun string, n int) (bool, error) {
	if c.dryRun && structured(cmd) {
		return false, a.encode(cmd, dryRunResult{Affected: n, Names: []string{}})
	}
	return c.leave(a, verb, noun, strconv.Itoa(n))
}

// leave says how many would be affected, or asks for leave.
func (c *confirmation) leave(a app, verb, noun, found string) (bool, error) {
	switch {
	case c.dryRun:
		if found == "1" {
			noun = strings.TrimSuffix(noun, "s")
		}
		a.sayf("%s %s would be affected by %s.", found, noun, verb)
		return false, nil
	case found == "0":
		return true, nil // nothing to lose; the node will say so
	case !isTerminal(a.in):
		return false, usagef("this would %s %s %s; give --yes to do it, or --dry-run to look", verb, found, noun)
	}
	fmt.Fprintf(a.errs, "%s %s %s? [y/N] ", strings.ToUpper(verb[:1])+verb[1:], found, noun)
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
