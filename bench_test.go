package carillon_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/plan"
)

// BenchmarkPut is what every put costs before the store sees it.
func BenchmarkPut(b *testing.B) {
	for name, job := range map[string]carillon.Job{
		"one-shot": {Namespace: "default", Name: "reminders/42", Due: carillon.In(time.Hour),
			Data: carillon.JSON(42), Target: carillon.WorkerQueue("reminders")},
		"cron": {Namespace: "default", Name: "reports/nightly", Schedule: "0 0 2 * * *", TimeZone: "Europe/London",
			Target: carillon.HTTP("https://reports.example.com/run")},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := job.Validate(carillon.Bounds{}); err != nil {
					b.Fatal(err)
				}
				sched, _ := job.ParseSchedule()
				if _, _, _, err := plan.FirstRun(&job, sched, now); err != nil {
					b.Fatal(err)
				}
				plan.RetryWarning(&job)
			}
		})
	}
}

// BenchmarkValidate is the checks of a put alone.
func BenchmarkValidate(b *testing.B) {
	job := carillon.Job{Namespace: "default", Name: "reminders/42",
		Due: carillon.WhenText("2030-01-01T00:00:00Z"), Data: carillon.JSON(42),
		Labels: map[string]string{"team": "billing"}, Target: carillon.WorkerQueue("reminders")}
	b.ReportAllocs()
	for b.Loop() {
		if err := job.Validate(carillon.Bounds{}); err != nil {
			b.Fatal(err)
		}
	}
}
