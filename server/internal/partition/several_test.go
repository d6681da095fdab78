package partition_test

import (
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// TestSeveralSchedulesOfAJob has a job with the times 20, 30, 40 and 60 s, 60 s being a time of both of its
// schedules.
func TestSeveralSchedulesOfAJob(t *testing.T) {
	for name, c := range map[string]struct {
		job     carillon.Job
		want    []int
		skipped uint64
	}{
		"all":    {carillon.Job{Misfire: carillon.Misfire{Rule: carillon.MisfireAll}}, []int{20, 30, 40, 60}, 0},
		"latest": {carillon.Job{}, []int{60}, 3},
		"limit": {carillon.Job{Misfire: carillon.Misfire{Rule: carillon.MisfireAll, Limit: 2}},
			[]int{40, 60}, 2},
		"window": {carillon.Job{Misfire: carillon.Misfire{Rule: carillon.MisfireAll, Window: 30 * time.Second}},
			[]int{40, 60}, 2},
		"repeats": {carillon.Job{Repeats: 3, Misfire: carillon.Misfire{Rule: carillon.MisfireAll}},
			[]int{20, 30, 40}, 0},
		"life": {carillon.Job{TTL: carillon.In(45 * time.Second),
			Misfire: carillon.Misfire{Rule: carillon.MisfireAll}}, []int{20, 30, 40}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c.job.Name, c.job.Schedule = "a", "@every 20s; @every 30s"
			r := newRig(t, partition.Config{})
			r.mustPut(c.job)
			r.now += int64(68 * time.Second) // everything is down
			r.start()
			r.flush()
			if got := r.workOff(); !slices.Equal(got, c.want) {
				t.Errorf("it ran %v, want %v", got, c.want)
			}
			if n := r.passedOver("a"); n[partition.ReasonMisfire] != c.skipped {
				t.Errorf("%v did not run, want %d", n, c.skipped)
			}
		})
	}
}

func TestAPutOfAnotherSetCountsTimesAnew(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 20s; @every 30s"})
	r.advance(25 * time.Second)
	if got := r.workOff(); !slices.Equal(got, []int{20}) {
		t.Fatalf("it ran %v", got)
	}
	p := r.mustPut(carillon.Job{Name: "a", Schedule: "@every 20s; @every 30s"})
	if next := p.Job.Status.NextRun.UnixNano(); p.Changed || next != epoch+int64(30*time.Second) {
		t.Errorf("the same set changed something: next %d", (next-epoch)/1e9)
	}
	p = r.mustPut(carillon.Job{Name: "a", Schedule: "@every 30s; @every 50s"})
	if next := p.Job.Status.NextRun.UnixNano(); !p.Changed || next != epoch+int64(55*time.Second) {
		t.Errorf("another set: next %d", (next-epoch)/1e9)
	}
}
