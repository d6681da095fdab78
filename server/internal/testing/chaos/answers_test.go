package chaos_test

import (
	"testing"

	"github.com/carillonhq/carillon/server/internal/testing/chaos"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
)

// TestAnswersAreOfTheResultsThatWereSaid says two results, hears answers to them and to heartbeats between
// them, and looks which verdict each result has at last, as a recorder notes them: an acknowledgement takes
// the place of a refusal.
func TestAnswersAreOfTheResultsThatWereSaid(t *testing.T) {
	const acked, stale, none = checker.Acked, checker.Stale, checker.None
	for name, c := range map[string]struct {
		heard []checker.ResultVerdict
		want  [2]checker.ResultVerdict
	}{
		"nothing":         {nil, [2]checker.ResultVerdict{none, none}},
		"one is accepted": {[]checker.ResultVerdict{acked}, [2]checker.ResultVerdict{acked, none}},
		"both are accepted": {[]checker.ResultVerdict{acked, acked},
			[2]checker.ResultVerdict{acked, acked}},
		"both are refused": {[]checker.ResultVerdict{stale, stale},
			[2]checker.ResultVerdict{stale, stale}},
		"a beat is refused before them": {[]checker.ResultVerdict{stale, acked, acked},
			[2]checker.ResultVerdict{acked, acked}},
		"a beat is refused in between": {[]checker.ResultVerdict{acked, stale, acked},
			[2]checker.ResultVerdict{acked, acked}},
		"two beats are refused": {[]checker.ResultVerdict{stale, stale, acked, acked},
			[2]checker.ResultVerdict{acked, acked}},
		"a beat is refused after them": {[]checker.ResultVerdict{acked, acked, stale},
			[2]checker.ResultVerdict{acked, acked}},
		"of results of another token": {[]checker.ResultVerdict{"", ""}, [2]checker.ResultVerdict{none, none}},
	} {
		t.Run(name, func(t *testing.T) {
			a := chaos.NewAnswers()
			var got [2]checker.ResultVerdict
			for i := range got {
				got[i] = none
				a.Said("t", i)
			}
			for _, v := range c.heard {
				token := "t"
				if v == "" {
					token, v = "another", acked
				}
				place, ok := a.Told(token, v)
				if ok && (got[place] == none || got[place] == stale && v == acked) {
					got[place] = v
				}
			}
			if got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
