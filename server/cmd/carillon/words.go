package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
)

// The words of the API, in the order of the constants that they stand for, so that the n-th word is constant
// n.
var (
	dstWords     = wordsOf(carillon.DSTSafe, carillon.DSTLiteral)
	overlapWords = wordsOf(carillon.OverlapSerial, carillon.OverlapSkip, carillon.OverlapAllow,
		carillon.OverlapReplace)
	misfireWords  = wordsOf(carillon.MisfireLatest, carillon.MisfireAll, carillon.MisfireSkip)
	priorityWords = wordsOf(carillon.PriorityNormal, carillon.PriorityCritical, carillon.PriorityHigh,
		carillon.PriorityLow)
	exhaustedWords = wordsOf(carillon.ExhaustedDefault, carillon.ExhaustedDead, carillon.ExhaustedDrop)
	policyWords    = wordsOf(carillon.PolicyDefault, carillon.PolicyDrop, carillon.PolicyConstant,
		carillon.PolicySchedule, carillon.PolicyExponential)
	phaseWords = wordsOf(carillon.PhaseScheduled, carillon.PhaseReady, carillon.PhaseStaged,
		carillon.PhaseRunning, carillon.PhaseRetrying, carillon.PhasePaused, carillon.PhaseWaiting)
	// not in the order of the constants.
	backfillOverlaps = wordsOf(carillon.OverlapSerial, carillon.OverlapAllow)
	statusWords      = wordsOf(runStatuses...)
	triggerOverlaps  = wordsOf(carillon.OverlapAllow, carillon.OverlapSkip, carillon.OverlapReplace)
)

// runStatuses are the statuses of runs.
var runStatuses = []carillon.RunStatus{carillon.RunScheduled, carillon.RunStaged, carillon.RunRunning,
	carillon.RunRetrying, carillon.RunSucceeded, carillon.RunFailed, carillon.RunDead, carillon.RunCancelled,
	carillon.RunSkipped}

func wordsOf[T fmt.Stringer](values ...T) []string {
	words := make([]string, 0, len(values))
	for _, v := range values {
		words = append(words, v.String())
	}
	return words
}

// choice is the value of a flag that accepts one of several words.
type choice struct {
	words   []string
	chosen  int  // -1: none
	anyCase bool // upper case is accepted
}

// add adds the flag to a command, with its words for the shell.
func (c *choice) add(cmd *cobra.Command, name, usage string) {
	cmd.Flags().Var(c, name, usage)
	complete(cmd, name, c.words)
}

func (c *choice) String() string {
	if c.chosen < 0 || c.chosen >= len(c.words) {
		return ""
	}
	return c.words[c.chosen]
}

// Set implements pflag.Value.
func (c *choice) Set(s string) error {
	if c.anyCase {
		s = strings.ToLower(s)
	}
	n, err := choose(c.words, s)
	if err == nil {
		c.chosen = n
	}
	return err
}

// Type returns what the help shows.
func (c *choice) Type() string { return strings.Join(c.words, "|") }

// choose returns the index of s in words.
func choose(words []string, s string) (int, error) {
	if n := slices.Index(words, s); n >= 0 {
		return n, nil
	}
	return 0, usagef("it is one of %s", strings.Join(words, ", "))
}

// complete makes the shell offer the words after a flag.
func complete(cmd *cobra.Command, flag string, words []string) {
	err := cmd.RegisterFlagCompletionFunc(flag,
		cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag does not exist, or has a completion already: a bug
	}
}

// completeBy makes the shell offer after a flag what a function finds.
func completeBy(cmd *cobra.Command, flag string, find func(*cobra.Command) []string) {
	err := cmd.RegisterFlagCompletionFunc(flag,
		func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return find(cmd), cobra.ShellCompDirectiveNoFileComp
		})
	if err != nil {
		panic(err) // the flag does not exist, or has a completion already: a bug
	}
}

// targetText describes where a job's runs go, for people.
func targetText(t carillon.Target) string {
	switch {
	case t.Worker != nil:
		return "worker " + t.Worker.Queue
	case t.HTTP != nil:
		return "http " + t.HTTP.URL
	case t.AwaitsCompletion():
		return t.Kind() + " " + t.BrokerAddress() + ", then awaits completion"
	case t.Broker() != "":
		return t.Kind() + " " + t.BrokerAddress()
	default:
		return t.Kind()
	}
}

// wholeTarget is [targetText] with all that was set of a target.
func wholeTarget(t carillon.Target) string {
	text := targetText(t)
	switch {
	case t.HTTP != nil:
		return commas(text, unlessZero("method %s", t.HTTP.Method),
			unlessZero("headers %s", pairsText(t.HTTP.Headers)))
	case t.Kafka != nil:
		return commas(text, unlessZero("key %s", t.Kafka.Key))
	case t.AMQP != nil:
		return commas(text, unlessZero("routing key %s", t.AMQP.RoutingKey))
	}
	return text
}
