package store

import (
	"errors"
	"fmt"
	"testing"
)

// TestOutcomeOfAnError: what is not known to be fenced or unknown has not been applied, and an error that is
// both is fenced, which rules out that it was.
func TestOutcomeOfAnError(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("a driver says: %w", err) }
	for _, c := range []struct {
		err  error
		want Outcome
	}{
		{nil, Applied},
		{ErrFenced, Fenced},
		{wrap(ErrFenced), Fenced},
		{ErrUnknown, Unknown},
		{wrap(ErrUnknown), Unknown},
		{errors.Join(ErrUnknown, ErrFenced), Fenced},
		{ErrFull, NotApplied},
		{ErrDamaged, NotApplied},
		{Away(errors.New("no route")), NotApplied},
		{Away(ErrUnknown), Unknown},
	} {
		if got := OutcomeOf(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
}

func TestAwayKeepsTheError(t *testing.T) {
	cause := errors.New("connection refused")
	away := Away(cause)
	if !errors.Is(away, ErrAway) || !errors.Is(away, cause) || away.Error() != cause.Error() {
		t.Errorf("%v, is ErrAway: %v, is its cause: %v", away, errors.Is(away, ErrAway), errors.Is(away, cause))
	}
	if errors.Is(away, ErrUnknown) || errors.Is(cause, ErrAway) {
		t.Error("it is more than its cause and ErrAway")
	}
}
