package multisession

import (
	"fmt"
	"testing"

	"github.com/carillonhq/carillon"
)

// TestAwaitingRepeatsInOrder: what is wanted, in requests of a bounded size, and no progress.
func TestAwaitingRepeatsInOrder(t *testing.T) {
	const most = maxMessage / (itemBytes + carillon.MaxResponse)
	a := awaiting{}
	a.add([]carillon.Result{{Token: "progress", Outcome: carillon.OutcomeProgress}})
	for i := range 2*most + 1 {
		a.add([]carillon.Result{{Token: fmt.Sprintf("%05d", i), Response: make([]byte, carillon.MaxResponse)}})
	}
	delete(a, "00001")
	if a.has("progress") || a.has("00001") || !a.has("00002") {
		t.Error("it has others")
	}
	var sizes []int
	last := ""
	a.repeat(func(token string) bool { return token != "00000" }, func(results []carillon.Result) {
		sizes = append(sizes, len(results))
		for i := range results {
			if results[i].Token <= last || results[i].Token == "00000" {
				t.Errorf("%s after %q", results[i].Token, last)
			}
			last = results[i].Token
		}
	})
	if fmt.Sprint(sizes) != fmt.Sprint([]int{most, most - 1}) {
		t.Errorf("requests of %v results", sizes)
	}
}
