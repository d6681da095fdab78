package httpapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// TestTheFieldsThatAPatchNames: what is in the body, of policies each part and no more.
func TestTheFieldsThatAPatchNames(t *testing.T) {
	const p = "failure_policy"
	for body, want := range map[string][]string{
		`{"note":"x","failure_policy":null}`:                                   {"note", p},
		`{"failure_policy":{}}`:                                                nil,
		`{"failure_policy":{"drop":{}}}`:                                       {p + ".drop"},
		`{"failure_policy":{"exponential":{}}}`:                                {p + ".exponential"},
		`{"history":null,"history":{"runs":3}}`:                                {"history.runs"},
		`{"failure_policy":{"exponential":null}}`:                              {p + ".exponential"},
		`{"failure_policy":{"exponential":null,"constant":{"interval":"1s"}}}`: {p + ".constant.interval"},
		`{"failurePolicy":{"exponential":{"maxRetries":null},"onExhausted":"dead"}}`: {p +
			".exponential.max_retries", p + ".on_exhausted"},
		`{"target":{"worker":{"queue":"q"}},"history":{"keep":"1h"},"labels":{"a":""}}`: {"target",
			"history.keep", "labels"},
		`{"data":{"failure_policy":{"exponential":1}}}`: {"data"},
	} {
		got, err := UnmarshalPatch([]byte(body), &pb.Job{})
		slices.Sort(got)
		slices.Sort(want)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s names %v, %v, not %v", body, got, err, want)
		}
	}
}

// TestEachPartHasItsPlaceInABody: the paths that a patch may name are those of the bodies, but for the one
// that goes for all forms.
func TestEachPartHasItsPlaceInABody(t *testing.T) {
	values := map[string]string{"max_retries": "1", "factor": "2", "runs": "1", "cron": `"@daily"`,
		"on_exhausted": `"dead"`, "pause_after": "3", "no_results": "true"}
	for _, path := range carillon.PatchParts() {
		words := strings.Split(path, ".")
		last := words[len(words)-1]
		value := values[last]
		switch {
		case path == "failure_policy.max_retries":
			continue
		case slices.Contains([]string{"drop", "constant", "schedule", "exponential"}, last):
			value = "{}"
		case value == "":
			value = `"1s"`
		}
		body := strings.Repeat("}", len(words))
		body = value + body
		for _, word := range slices.Backward(words) {
			body = fmt.Sprintf(`{"%s":%s`, word, body)
		}
		if got, err := UnmarshalPatch([]byte(body), &pb.Job{}); err != nil || !slices.Equal(got, []string{path}) {
			t.Errorf("%s names %v, %v", body, got, err)
		}
	}
}
