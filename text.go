package carillon

import (
	"fmt"
	"strings"
)

// The words of the API, in the order of the constants that they stand for.
var (
	dstWords      = words{"dst", []string{"safe", "literal"}}
	overlapWords  = words{"overlap", []string{"serial", "skip", "allow", "replace"}}
	misfireWords  = words{"misfire", []string{"latest", "all", "skip"}}
	priorityWords = words{"priority", []string{"normal", "critical", "high", "low"}}
	phaseWords    = words{"phase", []string{"scheduled", "ready", "staged", "running", "retrying",
		"paused", "waiting"}}
	causeWords     = words{"cause", []string{"schedule", "trigger", "backfill"}}
	outcomeWords   = words{"outcome", []string{"failure", "success", "progress", "reschedule"}}
	backfillWords  = words{"status", []string{"running", "done", "cancelled"}}
	policyWords    = words{"failure_policy", []string{"default", "drop", "constant", "schedule", "exponential"}}
	exhaustedWords = words{"failure_policy.on_exhausted", []string{"default", "dead", "drop"}}
	runActionWords = words{"action", []string{"", "cancel", "redrive"}}
	jobActionWords = words{"action", []string{"", "trigger", "delete", "pause", "resume"}}
	statusWords    = words{"status", []string{"scheduled", "staged", "running", "retrying", "succeeded",
		"failed", "dead", "cancelled", "skipped"}}
)

// words are the names of an enum's values.
type words struct {
	field string   // its name in the API
	list  []string // by value
}

// of returns the word for a value; a value without one is shown as a number.
func (w words) of(value uint8) string {
	if int(value) < len(w.list) {
		return w.list[value]
	}
	return fmt.Sprintf("unknown(%d)", value)
}

// check refuses a value without a word.
func (w words) check(value uint8) error {
	switch {
	case int(value) < len(w.list) && w.list[value] != "":
		return nil
	case value == 0: // has no word, so it means that nothing was given
		return invalid(w.field, "it is missing; use one of %s", strings.Join(w.list[1:], ", "))
	}
	return invalid(w.field, "%d is unknown; use one of %s", value,
		strings.TrimPrefix(strings.Join(w.list, ", "), ", "))
}

// String returns the word of the API: "safe" or "literal".
func (d DST) String() string { return dstWords.of(uint8(d)) }

// String returns the word of the API: "serial", "skip", "allow" or "replace".
func (o Overlap) String() string { return overlapWords.of(uint8(o)) }

// String returns the word of the API: "latest", "all" or "skip".
func (m MisfireRule) String() string { return misfireWords.of(uint8(m)) }

// String returns the word of the API: "normal", "critical", "high" or "low".
func (c Priority) String() string { return priorityWords.of(uint8(c)) }

// String returns the word of the API: "scheduled", "ready", "staged", "running", "retrying", "paused" or
// "waiting".
func (p Phase) String() string { return phaseWords.of(uint8(p)) }

// String returns the word of the API: "schedule", "trigger" or "backfill".
func (c Cause) String() string { return causeWords.of(uint8(c)) }

// String returns the word of the API: "scheduled", "staged", "running", "retrying", "succeeded", "failed",
// "dead", "cancelled" or "skipped".
func (s RunStatus) String() string { return statusWords.of(uint8(s)) }

// String returns the word of the API: "cancel" or "redrive".
func (a RunAction) String() string { return runActionWords.of(uint8(a)) }

// String returns the word of the API: "trigger", "delete", "pause" or "resume".
func (a JobAction) String() string { return jobActionWords.of(uint8(a)) }

// String returns the word of the API: "failure", "success", "progress" or "reschedule".
func (o Outcome) String() string { return outcomeWords.of(uint8(o)) }

// String returns the word of the API: "drop", "constant", "schedule", "exponential", or "default" for none.
func (k PolicyKind) String() string { return policyWords.of(uint8(k)) }

// String returns the word of the API: "dead", "drop", or "default" for neither.
func (o OnExhausted) String() string { return exhaustedWords.of(uint8(o)) }

// String returns the word of the API: "running", "done" or "cancelled".
func (s BackfillStatus) String() string { return backfillWords.of(uint8(s)) }

// clip shortens a caller's text for an error message.
func clip(s string) string {
	const most = 64
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
