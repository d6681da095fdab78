package multisession

import (
	"maps"
	"slices"

	"github.com/carillonhq/carillon"
)

// awaiting are the results, by token, that a node was sent and has not acknowledged. They are sent to another
// node if this one is lost or suspect.
type awaiting map[string]carillon.Result

// add keeps results; progress is not acknowledged.
func (a awaiting) add(results []carillon.Result) {
	for i := range results {
		if results[i].Outcome != carillon.OutcomeProgress {
			a[results[i].Token] = results[i]
		}
	}
}

func (a awaiting) has(token string) bool { _, has := a[token]; return has }

// maxRepeat bounds the results repeated in one request: with the largest responses it is about maxMessage
// bytes.
const maxRepeat = maxMessage / carillon.MaxResponse

// repeat passes the results that wanted selects to send, at most maxRepeat at a time.
func (a awaiting) repeat(wanted func(token string) bool, send func(results []carillon.Result)) {
	var results []carillon.Result
	for _, token := range slices.Sorted(maps.Keys(a)) {
		if !wanted(token) {
			continue
		}
		if results = append(results, a[token]); len(results) == maxRepeat {
			send(results)
			results = nil
		}
	}
	if len(results) > 0 {
		send(results)
	}
}
