package carillon

import (
	"time"
	"unicode/utf8"
)

// Validate returns an error about the first wrong field, by its API name. It checks only what the outcome
// needs.
func (r *Result) Validate() error {
	switch r.Outcome {
	case OutcomeProgress:
		return renamedWithin("progress", r.Progress.Validate())
	case OutcomeReschedule:
		if r.At.IsZero() {
			return Errorf(InvalidArgument, "at", "it is missing; say when the run is to be attempted again")
		}
		if !Storable(r.At) {
			return Errorf(InvalidArgument, "at", "%s is not between %s and %s", show(r.At),
				EarliestTime.Format(time.RFC3339), LatestTime.Format(time.RFC3339))
		}
	}
	return nil
}

// Validate returns an error about the first wrong field.
func (p *Progress) Validate() error {
	switch {
	case !(p.Percent >= 0 && p.Percent <= 100): // also when it is not a number
		return Errorf(InvalidArgument, "percent", "%v is not between 0 and 100", p.Percent)
	case len(p.Message) > MaxProgressMessage:
		return tooLarge("message", len(p.Message), MaxProgressMessage)
	case !utf8.ValidString(p.Message):
		return Errorf(InvalidArgument, "message", "it is not UTF-8")
	}
	return nil
}
