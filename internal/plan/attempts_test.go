package plan_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/plan"
)

func TestAttemptsBeforeAreThoseOfOneRun(t *testing.T) {
	metadata := map[string]string{plan.AttemptsKey: plan.Attempts(now, 3)}
	dapr := carillon.Job{Target: carillon.Target{Dapr: &carillon.DaprTarget{AppID: "a"}}, Metadata: metadata}
	worker := carillon.Job{Target: carillon.WorkerQueue("q"), Metadata: metadata}
	other := dapr
	other.Metadata = map[string]string{plan.AttemptsKey: "some " + now.Format(time.RFC3339Nano)}
	for _, c := range []struct {
		job  carillon.Job
		at   time.Time
		want int
	}{
		{dapr, now, 3}, {dapr, now.In(time.FixedZone("", 3600)), 3}, {dapr, now.Add(1), 0}, {worker, now, 0}, {other, now, 0},
	} {
		if got := plan.AttemptsBefore(&c.job, c.at); got != c.want {
			t.Errorf("%v at %v: %d, not %d", c.job.Metadata, c.at, got, c.want)
		}
	}
}
