package engine

import (
	"errors"
	"slices"
	"testing"

	"github.com/carillonhq/carillon"
)

// toldAll is what callers were told, by their names.
type toldAll map[string]error

func (t toldAll) wait(r *replies, name string, seq uint64, final bool) {
	f := func(err error) {
		if _, twice := t[name]; twice {
			panic(name + " is answered twice")
		}
		t[name] = err
	}
	if final {
		r.add(answer{seq: seq, answer: f, final: true})
	} else {
		r.await(seq, f)
	}
}

func TestRepliesWaitForTheirBatch(t *testing.T) {
	var r replies
	got := toldAll{}
	got.wait(&r, "a", 1, false)
	got.wait(&r, "b", 2, false)
	got.wait(&r, "c", 3, true)
	if len(got) != 0 {
		t.Errorf("answered before anything was durable: %v", got)
	}
	r.committed(2)
	if err, ok := got["b"]; len(got) != 2 || !ok || err != nil {
		t.Errorf("after batch 2: %v", got)
	}
	got.wait(&r, "late", 1, false)
	if _, ok := got["late"]; !ok {
		t.Error("a durable batch is waited for")
	}
	r.refuse(errTest)
	if !errors.Is(got["c"], errTest) || len(r.waiting) != 0 {
		t.Errorf("refused: %v", got)
	}
}

// TestLostReplies: only who waits for a batch that was sent is told that the outcome is unknown.
func TestLostReplies(t *testing.T) {
	for name, c := range map[string]struct {
		flight     *commit
		notApplied bool
		unknown    []string
		handed     int
	}{
		"sent":                  {nil, false, []string{"final", "sent"}, 0},
		"certainly not applied": {nil, true, nil, 0},
		"in flight":             {&commit{}, false, []string{"sent"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r, got := replies{sent: 6, durable: 5}, toldAll{}
			got.wait(&r, "sent", 6, false)
			got.wait(&r, "final", 6, true)
			got.wait(&r, "unsent", 7, true)
			if c.notApplied {
				r.notApplied()
			}
			r.lose(errTest, c.flight, 99)
			var unknown []string
			for caller, err := range got {
				if e, ok := errors.AsType[*carillon.Error](err); !ok || !errors.Is(err, errTest) {
					t.Errorf("%s is told %v", caller, err)
				} else if e.Unknown {
					unknown = append(unknown, caller)
				}
			}
			if slices.Sort(unknown); !slices.Equal(unknown, c.unknown) {
				t.Errorf("the outcome is unknown to %v, want %v", unknown, c.unknown)
			}
			if c.flight != nil && (len(c.flight.waiting) != c.handed || c.flight.since != 99) {
				t.Errorf("the batch in flight has %d callers", len(c.flight.waiting))
			}
			if len(got)+c.handed != 3 || len(r.waiting) != 0 {
				t.Errorf("%d of 3 were answered", len(got))
			}
		})
	}
}
