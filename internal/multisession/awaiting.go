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

// repeat passes the results that wanted selects to send, about maxMessage bytes at a time.
func (a awaiting) repeat(wanted func(token string) bool, send func(results []carillon.Result)) {
	var results []carillon.Result
	bytes := 0
	for _, token := range slices.Sorted(maps.Keys(a)) {
		if !wanted(token) {
			continue
		}
		r := a[token]
		size := resultBytes(&r)
		if bytes+size > maxMessage && len(results) > 0 {
			send(results)
			results, bytes = nil, 0
		}
		results, bytes = append(results, r), bytes+size
	}
	if len(results) > 0 {
		send(results)
	}
}
