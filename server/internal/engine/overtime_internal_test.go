package engine

import (
	"errors"
	"fmt"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// TestWhichCausesMayBeAnOutage: a store that has answered, with a refusal, is not away.
func TestWhichCausesMayBeAnOutage(t *testing.T) {
	for cause, want := range map[error]bool{
		errors.New("connection refused"):                     true,
		fmt.Errorf("%w: no route to host", store.ErrUnknown): true,
		errExpired:                               true,
		errTaken:                                 false,
		fmt.Errorf("%w: epoch", store.ErrFenced): false,
		fmt.Errorf("put: %w", store.ErrFull):     false,
		besideDamage(store.ErrDamaged):           false,
		inBatch(3, carillon.Errorf(carillon.InvalidArgument, "name", "too long")): false,
	} {
		if got := maybeAway(cause); got != want {
			t.Errorf("%v: %v", cause, got)
		}
	}
}
