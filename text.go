package carillon

import (
	"fmt"
	"slices"
	"strings"
)

// The words of the API, in the order of the constants that they stand for.
var (
	dstWords       = words{"dst", []string{"safe", "literal"}}
	overlapWords   = words{"overlap", []string{"serial", "skip", "allow", "replace"}}
	misfireWords   = words{"misfire", []string{"latest", "all", "skip"}}
	priorityWords  = words{"priority", []string{"normal", "critical", "high", "low"}}
	phaseWords     = words{"phase", []string{"scheduled", "ready", "staged", "running", "retrying", "paused", "waiting"}}
	causeWords     = words{"cause", []string{"schedule", "trigger", "backfill"}}
	outcomeWords   = words{"outcome", []string{"failure", "success", "progress", "reschedule"}}
	backfillWords  = words{"status", []string{"running", "done", "cancelled"}}
	policyWords    = words{"failure_policy", []string{"default", "drop", "constant", "schedule", "exponential"}}
	exhaustedWords = words{"failure_policy.on_exhausted", []string{"default", "dead", "drop"}}
	statusWords    = words{"status", []string{"scheduled", "staged", "running", "retrying", "succeeded", "failed", "dead",
		"cancelled", "skipped"}}
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

// parse returns the value of a word.
func parse[T ~uint8](w words, word string) (T, error) {
	if i := slices.Index(w.list, word); i >= 0 {
		return T(i), nil
	}
	return 0, Errorf(InvalidArgument, w.field, "%q is unknown; use one of %s", clip(word), strings.Join(w.list, ", "))
}

// check refuses a value without a word.
func (w words) check(value uint8) error {
	if int(value) < len(w.list) {
		return nil
	}
	return Errorf(InvalidArgument, w.field, "%d is unknown; use one of %s", value, strings.Join(w.list, ", "))
}

// String returns the word of the API: "safe" or "literal".
func (d DST) String() string { return dstWords.of(uint8(d)) }

// ParseDST returns the rule for a word of the API.
func ParseDST(word string) (DST, error) { return parse[DST](dstWords, word) }

// String returns the word of the API: "serial", "skip", "allow" or "replace".
func (o Overlap) String() string { return overlapWords.of(uint8(o)) }

// ParseOverlap returns the rule for a word of the API.
func ParseOverlap(word string) (Overlap, error) { return parse[Overlap](overlapWords, word) }

// String returns the word of the API: "latest", "all" or "skip".
func (m Misfire) String() string { return misfireWords.of(uint8(m)) }

// ParseMisfire returns the rule for a word of the API.
func ParseMisfire(word string) (Misfire, error) { return parse[Misfire](misfireWords, word) }

// String returns the word of the API: "normal", "critical", "high" or "low".
func (c Priority) String() string { return priorityWords.of(uint8(c)) }

// ParsePriority returns the priority for a word of the API.
func ParsePriority(word string) (Priority, error) { return parse[Priority](priorityWords, word) }

// String returns the word of the API: "scheduled", "ready", "staged", "running", "retrying", "paused" or
// "waiting".
func (p Phase) String() string { return phaseWords.of(uint8(p)) }

// ParsePhase returns the phase for a word of the API.
func ParsePhase(word string) (Phase, error) { return parse[Phase](phaseWords, word) }

// String returns the word of the API: "schedule", "trigger" or "backfill".
func (c Cause) String() string { return causeWords.of(uint8(c)) }

// ParseCause returns the cause for a word of the API.
func ParseCause(word string) (Cause, error) { return parse[Cause](causeWords, word) }

// String returns the word of the API: "scheduled", "staged", "running", "retrying", "succeeded", "failed",
// "dead", "cancelled" or "skipped".
func (s RunStatus) String() string { return statusWords.of(uint8(s)) }

// ParseRunStatus returns the status for a word of the API.
func ParseRunStatus(word string) (RunStatus, error) { return parse[RunStatus](statusWords, word) }

// String returns the word of the API: "failure", "success", "progress" or "reschedule".
func (o Outcome) String() string { return outcomeWords.of(uint8(o)) }

// ParseOutcome returns the outcome for a word of the API.
func ParseOutcome(word string) (Outcome, error) { return parse[Outcome](outcomeWords, word) }

// String returns the word of the API: "drop", "constant", "schedule", "exponential", or "default" for none.
func (k PolicyKind) String() string { return policyWords.of(uint8(k)) }

// ParsePolicyKind returns the form for a word of the API.
func ParsePolicyKind(word string) (PolicyKind, error) { return parse[PolicyKind](policyWords, word) }

// String returns the word of the API: "dead", "drop", or "default" for neither.
func (o OnExhausted) String() string { return exhaustedWords.of(uint8(o)) }

// ParseOnExhausted returns the value for a word of the API.
func ParseOnExhausted(word string) (OnExhausted, error) {
	return parse[OnExhausted](exhaustedWords, word)
}

// String returns the word of the API: "running", "done" or "cancelled".
func (s BackfillStatus) String() string { return backfillWords.of(uint8(s)) }

// ParseBackfillStatus returns the status for a word of the API.
func ParseBackfillStatus(word string) (BackfillStatus, error) {
	return parse[BackfillStatus](backfillWords, word)
}

// clip shortens a caller's text for an error message.
func clip(s string) string {
	const most = 64
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
