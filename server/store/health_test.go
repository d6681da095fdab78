package store_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/carillonhq/carillon/server/store"
)

// TestHealthTellsOfChanges: each failure and recovery once, and that the store was replaced even while it
// fails.
func TestHealthTellsOfChanges(t *testing.T) {
	replaced, broken := errors.New("another store"), errors.New("broken")
	var told []string
	h := store.Health{Replaced: replaced,
		Failed:    func(err error) { told = append(told, err.Error()) },
		Recovered: func() { told = append(told, "recovered") }}
	for _, err := range []error{nil, broken, broken, fmt.Errorf("%w", replaced), replaced, broken, nil} {
		h.Note(err)
	}
	if want := []string{"broken", "another store"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q: nothing is a success in a store that was replaced", told, want)
	}
	h.Same()
	h.Note(store.ErrFenced)
	h.Note(nil)
	if want := []string{"broken", "another store", "recovered"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	new(store.Health).Note(broken) // nobody listens
}
