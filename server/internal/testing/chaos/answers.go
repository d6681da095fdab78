package chaos

import "github.com/carillonhq/carillon/server/internal/testing/checker"

// answers matches what a node says of tokens with the results that wait for it, in the order in which they
// were said. Each result is answered once, as accepted or as stale; but a node says stale of a heartbeat as
// well, and the words are the same. So a result that was told stale is not settled: if the token is accepted
// once more than results wait, the refusal was of a heartbeat, and the result is accepted.
type answers struct {
	open    map[string][]int // places of results that wait for an answer, by token
	refused map[string][]int // of those that were told stale
}

func newAnswers() answers { return answers{open: map[string][]int{}, refused: map[string][]int{}} }

// said notes a result at a place.
func (a *answers) said(token string, place int) { a.open[token] = append(a.open[token], place) }

// waits reports whether a result of the token waits for an answer.
func (a *answers) waits(token string) bool { return len(a.open[token]) > 0 }

// told is the place of the result that an answer is of; ok is false if it is of none.
func (a *answers) told(token string, v checker.ResultVerdict) (place int, ok bool) {
	from := a.open
	if len(from[token]) == 0 && v == checker.Acked {
		from = a.refused
	}
	waiting := from[token]
	if len(waiting) == 0 {
		return 0, false
	}
	place, from[token] = waiting[0], waiting[1:]
	if v == checker.Stale {
		a.refused[token] = append(a.refused[token], place)
	}
	return place, true
}
