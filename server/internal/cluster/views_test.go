package cluster

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestViewsTurn: one at a time, and whoever does not get it in time goes without.
func TestViewsTurn(t *testing.T) {
	v := newViews(1)
	if err := v.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := v.take(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while another has the turn: %v", err)
	}
	v.release()
	if err := v.take(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestViewsReplaceWakes: who waits for a newer view finds it.
func TestViewsReplaceWakes(t *testing.T) {
	v := newViews(2)
	old, next := v.load(), newView(nil, nil, 2, time.Time{})
	if before := v.replace(next, time.Second); before != old || v.load() != next || v.asked != time.Second {
		t.Error("it is not the newest")
	}
	select {
	case <-old.next:
	default:
		t.Error("nobody is woken")
	}
}
