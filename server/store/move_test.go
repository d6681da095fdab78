package store

import (
	"errors"
	"testing"
)

// TestCheckMove: a store without a mark may be served, and one with any other may not, known or not.
func TestCheckMove(t *testing.T) {
	if err := CheckMove(nil); err != nil {
		t.Error(err)
	}
	for value, want := range map[string]error{MoveArriving: ErrArriving, MoveMoved: ErrMoved, "of a later version": ErrMoved} {
		if err := CheckMove([]MetaRecord{{Kind: KindMove, Key: MoveKey, Value: []byte(value)}}); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", value, err, want)
		}
	}
}
