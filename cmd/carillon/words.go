package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
)

// The words of the API for what the root package numbers, in the order of its constants.
var (
	dstWords       = []string{"safe", "literal"}
	overlapWords   = []string{"serial", "skip", "allow", "replace"}
	misfireWords   = []string{"latest", "all", "skip"}
	classWords     = []string{"normal", "critical", "high", "low"}
	policyWords    = []string{"default", "drop", "constant", "schedule", "exponential"}
	exhaustedWords = []string{"default", "dead", "drop"}
	phaseWords     = []string{"scheduled", "ready", "staged", "running", "retrying", "paused"}
	causeWords     = []string{"schedule", "trigger", "backfill"}
	statusWords    = []string{"scheduled", "staged", "running", "retrying", "succeeded", "failed", "dead", "cancelled", "skipped"}
)

// word is the n-th of the words, or its number if a newer server says something unheard of.
func word[N ~uint8](words []string, n N) string {
	if int(n) < len(words) {
		return words[n]
	}
	return strconv.Itoa(int(n))
}

// choice is the value of a flag that takes one of a few words.
type choice struct {
	words  []string
	chosen int // -1 = none
}

func (c *choice) String() string {
	if c.chosen < 0 || c.chosen >= len(c.words) {
		return ""
	}
	return c.words[c.chosen]
}

// Set implements pflag.Value.
func (c *choice) Set(s string) error {
	n, err := choose(c.words, s)
	if err == nil {
		c.chosen = n
	}
	return err
}

// Type is what the help shows.
func (c *choice) Type() string { return strings.Join(c.words, "|") }

// choose is the index of s in words.
func choose(words []string, s string) (int, error) {
	for i, w := range words {
		if w == s {
			return i, nil
		}
	}
	return 0, usagef("it is one of %s", strings.Join(words, ", "))
}

// complete makes the shell offer the words after a flag.
func complete(cmd *cobra.Command, flag string, words []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag does not exist, or has a completion already: a bug of ours
	}
}

// targetText is where a job's runs go, for people.
func targetText(t carillon.Target) string {
	switch {
	case t.Worker != nil:
		return "worker " + t.Worker.Queue
	case t.HTTP != nil:
		return "http " + t.HTTP.URL
	default:
		return t.Kind()
	}
}
