package carillon_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
)

// checkWords: each value has its word, each word its value, and nothing else is taken.
func checkWords[T interface {
	~uint8
	fmt.Stringer
}](t *testing.T, parse func(string) (T, error), field, words string) {
	t.Helper()
	list := strings.Fields(words)
	for i, word := range list {
		if got := T(i).String(); got != word {
			t.Errorf("%T %d is %q, want %q", T(i), i, got, word)
		}
		if got, err := parse(word); err != nil || got != T(i) {
			t.Errorf("%T %q is %d, %v; want %d", got, word, got, err, i)
		}
	}
	if got := T(len(list)).String(); got != fmt.Sprintf("unknown(%d)", len(list)) {
		t.Errorf("%T has a value %d: %s", T(0), len(list), got)
	}
	for _, wrong := range []string{"", "nonsense", strings.ToUpper(list[0]), " " + list[0], "unknown(1)"} {
		_, err := parse(wrong)
		if fieldOf(err) != field {
			t.Errorf("%T: %q was taken, or not refused for %s: %v", T(0), wrong, field, err)
		} else if !strings.Contains(err.Error(), strings.Join(list, ", ")) {
			t.Errorf("%T: the words are not listed: %v", T(0), err)
		}
	}
}

func TestWords(t *testing.T) {
	checkWords(t, carillon.ParseDST, "dst", "safe literal")
	checkWords(t, carillon.ParseOverlap, "overlap", "serial skip allow replace")
	checkWords(t, carillon.ParseMisfire, "misfire", "latest all skip")
	checkWords(t, carillon.ParsePriority, "priority", "normal critical high low")
	checkWords(t, carillon.ParsePhase, "phase", "scheduled ready staged running retrying paused waiting")
	checkWords(t, carillon.ParseCause, "cause", "schedule trigger backfill")
	checkWords(t, carillon.ParseRunStatus, "status", "scheduled staged running retrying succeeded failed dead cancelled skipped")
	checkWords(t, carillon.ParseOutcome, "outcome", "failure success progress reschedule")
	checkWords(t, carillon.ParseBackfillStatus, "status", "running done cancelled")
	checkWords(t, carillon.ParsePolicyKind, "failure_policy", "default drop constant schedule exponential")
	checkWords(t, carillon.ParseOnExhausted, "failure_policy.on_exhausted", "default dead drop")
}

func TestClassRank(t *testing.T) {
	order := []carillon.Priority{carillon.PriorityCritical, carillon.PriorityHigh, carillon.PriorityNormal, carillon.PriorityLow}
	for rank, class := range order {
		if got := class.Rank(); int(got) != rank {
			t.Errorf("%v has rank %d, want %d", class, got, rank)
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
