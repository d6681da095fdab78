package server_test

import (
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/server"
)

// patched has a policy and a history in which nothing is a default.
func patched() carillon.Job {
	policy := carillon.Exponential(3 * time.Second).WithMaxRetries(7)
	policy.Factor, policy.Max, policy.Jitter, policy.OnExhausted = 1.5, time.Minute, time.Second, carillon.ExhaustedDrop
	return carillon.Job{Name: "a", Due: carillon.In(time.Hour), FailurePolicy: policy,
		Target: carillon.WorkerQueue(queue), History: carillon.History{Runs: 5, Keep: time.Hour}}
}

// TestAPatchOfAPartKeepsTheRest in the same process and over gRPC, for each part that fits the policy of the
// job, whether or not the patch says which form it is of.
func TestAPatchOfAPartKeepsTheRest(t *testing.T) {
	everywhere(t, func(w *rig) {
		values := patched()
		values.FailurePolicy = carillon.Exponential(9 * time.Second).WithMaxRetries(9)
		values.FailurePolicy.Max, values.FailurePolicy.Factor = 9*time.Hour, 9
		values.History = carillon.History{Runs: 9, Keep: 9 * time.Hour}
		formless := values
		formless.FailurePolicy.Kind = carillon.PolicyDefault
		for _, path := range carillon.PatchParts() {
			if strings.HasPrefix(path, "failure_policy.") && strings.Count(path, ".") == 2 &&
				!strings.Contains(path, "exponential") {
				continue
			}
			for _, given := range []carillon.Job{values, formless} {
				if strings.Count(path, ".") == 1 && given.FailurePolicy.Kind == 0 &&
					path != "failure_policy.max_retries" {
					continue
				}
				old := w.put(patched()).Job
				patch := carillon.Patch{Fields: []string{path}, Job: given}
				want, err := patch.Apply(old)
				got, refused := w.sched.PatchJob(w.t.Context(), key("a"), patch)
				if (err == nil) != (refused == nil) {
					w.t.Errorf("%s: %v, want %v", path, refused, err)
				} else if err == nil && !(reflect.DeepEqual(got.Job.FailurePolicy, want.FailurePolicy) &&
					got.Job.History == want.History) {
					w.t.Errorf("%s: %+v, not %+v", path, got.Job, want)
				}
			}
		}
	})
}

// TestAPatchOfAPartOverREST goes by what is in the body.
func TestAPatchOfAPartOverREST(t *testing.T) {
	s := serve(t, server.Config{Store: "memory:", Partitions: 1})
	c := dial(t, s)
	if _, err := c.PutJob(t.Context(), patched()); err != nil {
		t.Fatal(err)
	}
	want := patched()
	want.FailurePolicy = want.FailurePolicy.WithMaxRetries(2)
	want.FailurePolicy.Jitter, want.History.Keep = 0, 2*time.Hour
	body := `{"failure_policy":{"exponential":{"max_retries":2,"jitter":null}},"history":{"keep":"2h"}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch,
		"http://"+s.HTTPAddr()+"/v1/namespaces/default/jobs/a", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	caller := &http.Client{Timeout: patience}
	defer caller.CloseIdleConnections()
	resp, err := caller.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(resp.Body)
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v, %s: %s", err, resp.Status, said)
	}
	got, err := c.GetJob(t.Context(), key("a"))
	if err != nil || !reflect.DeepEqual(got.FailurePolicy, want.FailurePolicy) || got.History != want.History {
		t.Errorf("%+v, %+v, %v", got.FailurePolicy, got.History, err)
	}
}
