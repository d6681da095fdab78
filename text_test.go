package carillon_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
)

// checkWords: each value has its word, and there are no more.
func checkWords[T interface {
	~uint8
	fmt.Stringer
}](t *testing.T, words string) {
	t.Helper()
	list := strings.Fields(words)
	for i, word := range list {
		if got := T(i).String(); got != word {
			t.Errorf("%T %d is %q, want %q", T(i), i, got, word)
		}
	}
	if got := T(len(list)).String(); got != fmt.Sprintf("unknown(%d)", len(list)) {
		t.Errorf("%T has a value %d: %s", T(0), len(list), got)
	}
}

func TestWords(t *testing.T) {
	checkWords[carillon.DST](t, "safe literal")
	checkWords[carillon.Overlap](t, "serial skip allow replace")
	checkWords[carillon.MisfireRule](t, "latest all skip")
	checkWords[carillon.Priority](t, "normal critical high low")
	checkWords[carillon.Phase](t, "scheduled ready staged running retrying paused waiting")
	checkWords[carillon.Cause](t, "schedule trigger backfill")
	checkWords[carillon.RunStatus](t, "scheduled staged running retrying succeeded failed dead cancelled skipped")
	checkWords[carillon.Outcome](t, "failure success progress reschedule")
	checkWords[carillon.BackfillStatus](t, "running done cancelled")
	checkWords[carillon.PolicyKind](t, "default drop constant schedule exponential")
	checkWords[carillon.OnExhausted](t, "default dead drop")
}

func TestPriorityRank(t *testing.T) {
	order := []carillon.Priority{carillon.PriorityCritical, carillon.PriorityHigh, carillon.PriorityNormal,
		carillon.PriorityLow}
	for rank, priority := range order {
		if got := priority.Rank(); int(got) != rank {
			t.Errorf("%v has rank %d, want %d", priority, got, rank)
		}
	}
}

func TestFinished(t *testing.T) {
	for s := range carillon.RunSkipped + 1 {
		want := slices.Contains([]string{"succeeded", "failed", "dead", "cancelled", "skipped"}, s.String())
		if s.Finished() != want {
			t.Errorf("%v: finished is %v", s, s.Finished())
		}
	}
}
