package carillon_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon"
)

func ExampleJob() {
	job := carillon.Job{
		Name:          "reports/nightly",
		Schedule:      "0 0 2 * * *",
		TimeZone:      "Europe/London",
		Target:        carillon.HTTP("https://reports.example.com/run"),
		Data:          carillon.JSON(map[string]string{"kind": "daily"}),
		FailurePolicy: carillon.Exponential(2 * time.Second).WithMaxRetries(4),
	}
	fmt.Println(job.Validate(carillon.DefaultBounds()))
	// Output: <nil>
}

func ExampleJob_Validate() {
	job := carillon.Job{Name: "reports/nightly", Schedule: "0 61 2 * * *", Target: carillon.WorkerQueue("reports")}
	err := job.Validate(carillon.DefaultBounds())
	fmt.Println(errors.Is(err, carillon.InvalidArgument))
	fmt.Println(err)
	// Output:
	// true
	// invalid_argument: schedule: minute at position 2: 61 is out of range 0-59
}

func ExamplePreview() {
	times, err := carillon.Preview(carillon.PreviewQuery{
		Schedule: "0 30 9 * * MON-FRI",
		TimeZone: "America/New_York",
		From:     time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC),
		Count:    2,
	}, time.Time{})
	fmt.Println(times, err)
	// Output: [2026-11-20 14:30:00 +0000 UTC 2026-11-23 14:30:00 +0000 UTC] <nil>
}

func ExamplePatch_Apply() {
	old := carillon.Job{Name: "a", Note: "old", Timeout: time.Minute}
	job, err := carillon.Patch{Fields: []string{"note"}, Job: carillon.Job{Note: "new"}}.Apply(old)
	fmt.Println(job.Note, job.Timeout, err)
	// Output: new 1m0s <nil>
}

func ExampleFirstRun() {
	now := time.Date(2026, 11, 21, 11, 30, 0, 0, time.UTC)
	job := carillon.Job{Schedule: "@every 1h", Due: carillon.WhenText("2026-11-21T08:15:00Z"), TTL: carillon.WhenText("P1D")}
	sched, err := job.ParseSchedule()
	if err != nil {
		fmt.Println(err)
		return
	}
	_, next, expires, err := carillon.FirstRun(&job, sched, now)
	fmt.Println(next.Format(time.TimeOnly), expires.Format(time.RFC3339), err)
	// Output: 11:15:00 2026-11-22T08:15:00Z <nil>
}

func ExampleRetryWarning() {
	job := carillon.Job{
		Schedule: "@every 2s",
		FailurePolicy: carillon.FailurePolicy{Kind: carillon.PolicyExponential, Initial: 200 * time.Millisecond,
			Jitter: 500 * time.Millisecond}.WithMaxRetries(3),
	}
	fmt.Println(carillon.RetryWarning(&job))
	// Output:
	// failure_policy: the retries of a run can take 2.9s, which is not below the schedule's interval of 2s; lower max_retries or the delays
}
