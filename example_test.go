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
	job := carillon.Job{Name: "reports/nightly", Schedule: "0 61 2 * * *",
		Target: carillon.WorkerQueue("reports")}
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
