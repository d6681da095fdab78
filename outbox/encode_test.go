package outbox

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

func TestEncode(t *testing.T) {
	job := carillon.Job{Name: "a/b", Schedule: "@every 1h", Repeats: math.MaxUint64, Overlap: carillon.OverlapSkip,
		Data: carillon.JSON(1), Labels: map[string]string{"a": "b"}, DependsOn: []string{"c"}, Paused: true,
		Target: carillon.WorkerQueue("q"), FailurePolicy: carillon.Constant(time.Second).WithMaxRetries(3),
		History: carillon.History{Runs: -1}}
	const want = `{"name": "a/b", "schedule": "@every 1h", "repeats": 18446744073709551615, "overlap": "skip",
		"data_base64": "MQ==", "content_type": "application/json", "labels": {"a": "b"}, "depends_on": ["c"], "paused": true,
		"target": {"worker": {"queue": "q"}}, "failure_policy": {"constant": {"interval": "1s", "max_retries": 3}},
		"history": {"runs": -1}, "dst": "safe", "misfire": "latest", "priority": "normal"}`
	got, err := encode(&job)
	if err != nil {
		t.Fatal(err)
	}
	var is, should map[string]any
	if err := errors.Join(json.Unmarshal(got, &is), json.Unmarshal([]byte(want), &should)); err != nil {
		t.Fatal(err)
	}
	for _, m := range []map[string]any{is, should} { // what has its default may be left out
		for k, v := range m {
			if !reflect.DeepEqual(is[k], should[k]) {
				t.Errorf("%s is %v, want %v (%v)", k, is[k], should[k], v)
			}
		}
	}
	job.Data = carillon.JSON(func() {})
	if _, err := encode(&job); !errors.Is(err, carillon.InvalidArgument) {
		t.Errorf("data that is no JSON: %v", err)
	}
}
