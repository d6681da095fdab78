package dapr

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dapr/durabletask-go/workflow"
)

// alone is an installation with one scheduler and one sidecar.
func alone(t *testing.T, id string) (*installation, *sidecar) {
	t.Helper()
	in := install(t)
	in.members(1, "")
	s := in.sidecar(newApp(t, id), "")
	return in, s
}

// The script of docs/dapr.md: an app has its job every second, as often as it said, with its data; a job can be
// looked at, replaced and deleted; what fails comes again.
func TestJobs(t *testing.T) {
	_, s := alone(t, "shop")
	for name, j := range map[string]job{
		"three":  {Schedule: "@every 1s", Repeats: 3, Data: map[string]string{"text": "hello"}},
		"once":   {DueTime: "1s"},
		"fails":  {DueTime: "1s"},
		"never":  {DueTime: "1h"},
		"second": {Schedule: "* * * * * *", Repeats: 2},
	} {
		s.app.refuse("/job/fails", 2)
		if err := s.put(t.Context(), name, j); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.put(t.Context(), "never", job{DueTime: "1s"}); err == nil {
		t.Error("a job was replaced without overwrite")
	}
	if got := s.must(t, http.MethodGet, "/v1.0-alpha1/jobs/never", ""); !strings.Contains(got, `"dueTime":"1h"`) {
		t.Errorf("the job is shown as %s", got)
	}
	if err := s.put(t.Context(), "never", job{DueTime: "2h", Overwrite: true}); err != nil {
		t.Error(err)
	}
	s.must(t, http.MethodDelete, "/v1.0-alpha1/jobs/never", "")
	if _, err := s.call(t.Context(), http.MethodGet, "/v1.0-alpha1/jobs/never", ""); err == nil {
		t.Error("the job is there after it was deleted")
	}
	for path, n := range map[string]int{"/job/three": 3, "/job/once": 1, "/job/fails": 3, "/job/second": 2} {
		s.app.calls(t, path, n)
	}
	if got := s.app.body("/job/three"); !strings.Contains(got, "hello") {
		t.Errorf("the data came as %q", got)
	}
	ended(t, s, "three", "once", "fails", "second")
	for path, n := range map[string]int{"/job/three": 3, "/job/once": 1, "/job/fails": 3, "/job/second": 2,
		"/job/never": 0} {
		if got := len(s.app.times(path)); got != n {
			t.Errorf("%s was called %d times, want %d", path, got, n)
		}
	}
}

// ended waits until jobs are no more.
func ended(t *testing.T, s *sidecar, names ...string) {
	t.Helper()
	for _, name := range names {
		eventually(t, name, func() error {
			if _, err := s.call(t.Context(), http.MethodGet, "/v1.0-alpha1/jobs/"+name, ""); err == nil {
				return fmt.Errorf("the job %s is still there", name)
			}
			return nil
		})
	}
}

// Reminders come to their actor until they are deleted, over a kill of the scheduler too.
func TestReminders(t *testing.T) {
	in, s := alone(t, "tower")
	const actor = "/v1.0/actors/" + actorType + "/a/reminders/tick"
	eventually(t, "the actor type has a host", func() error {
		_, err := s.call(t.Context(), http.MethodPost, actor, `{"dueTime": "0s", "period": "1s", "data": "x"}`)
		return err
	})
	const path = "/actors/" + actorType + "/a/method/remind/tick"
	s.app.calls(t, path, 3)
	in.schedulers[0].down(t, syscall.SIGKILL)
	before := len(s.app.times(path))
	in.schedulers[0].up(t)
	s.app.calls(t, path, before+3)
	s.must(t, http.MethodDelete, actor, "")
	eventually(t, "the reminder is gone", func() error {
		if text, err := s.call(t.Context(), http.MethodGet, actor, ""); err == nil && strings.Contains(text, "period") {
			return fmt.Errorf("it is still there: %s", text)
		}
		return nil
	})
}

// A workflow with an activity and a timer ends over a kill of the scheduler.
func TestWorkflow(t *testing.T) {
	in, s := alone(t, "flow")
	r := workflow.NewRegistry()
	must(t, r.AddWorkflowN("order", func(c *workflow.WorkflowContext) (any, error) {
		var out string
		if err := c.CallActivity("pack").Await(&out); err != nil {
			return nil, err
		}
		return out, c.CreateTimer(3 * time.Second).Await(nil)
	}))
	must(t, r.AddActivityN("pack", func(workflow.ActivityContext) (any, error) { return "packed", nil }))
	c := s.workflows(t, r)
	var ids []string
	for range 20 {
		id, err := c.ScheduleWorkflow(t.Context(), "order")
		must(t, err)
		ids = append(ids, id)
	}
	in.schedulers[0].down(t, syscall.SIGKILL)
	in.schedulers[0].up(t)
	for _, id := range ids {
		m, err := c.WaitForWorkflowCompletion(t.Context(), id)
		must(t, err)
		if !workflow.WorkflowMetadataIsComplete(m) || m.Output.GetValue() != `"packed"` {
			t.Errorf("workflow %s: %v", id, m)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
