package main

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

// TestNextTimesAreThoseThatWillFire: the repeats that are used up, the end of the job's life and what its times
// are counted from are those of the job.
func TestNextTimesAreThoseThatWillFire(t *testing.T) {
	at := func(text string) time.Time {
		got, err := time.Parse("2006-01-02 15:04", text)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	job := func(schedule, created, next string, change func(j *carillon.Job)) *carillon.Job {
		j := &carillon.Job{Namespace: "default", Name: "a", Schedule: schedule, Status: &carillon.JobStatus{Created: at(created),
			Updated: at(created), NextRun: at(next)}}
		if change != nil {
			change(j)
		}
		return j
	}
	for name, is := range map[string]struct {
		job  *carillon.Job
		want []string
	}{
		"no end": {job("@every 1h", "2027-01-01 00:30", "2027-01-01 05:30", nil),
			[]string{"2027-01-01 05:30", "2027-01-01 06:30", "2027-01-01 07:30", "2027-01-01 08:30", "2027-01-01 09:30"}},
		"the last of four": {job("R4/PT15M", "2027-01-01 00:00", "2027-01-01 01:00", func(j *carillon.Job) {
			j.Status.Counters.Fired = 3
		}), []string{"2027-01-01 01:00"}},
		"all of three": {job("R3/PT15M", "2027-01-01 00:00", "2027-01-01 00:15", nil),
			[]string{"2027-01-01 00:15", "2027-01-01 00:30", "2027-01-01 00:45"}},
		"one that goes on counts, without an attempt as well": {job("R3/PT15M", "2027-01-01 00:00", "2027-01-01 00:30",
			func(j *carillon.Job) { j.Status.Current = &carillon.Run{} }), []string{"2027-01-01 00:30", "2027-01-01 00:45"}},
		"triggers use no repeats": {job("@hourly", "2027-01-01 00:30", "2027-01-01 02:00", func(j *carillon.Job) {
			j.Repeats, j.Status.Counters.Fired = 3, 7
		}), []string{"2027-01-01 02:00", "2027-01-01 03:00"}},
		"more repeats than are counted": {job("@every 1m", "2027-01-01 00:00", "2027-01-14 21:20", func(j *carillon.Job) {
			j.Repeats, j.Status.Counters.Fired = 20_000, 19_999
		}), []string{"2027-01-14 21:20"}},
		"months are counted from the first": {job("R/P1M", "2027-01-31 12:00", "2027-02-28 12:00", nil),
			[]string{"2027-02-28 12:00", "2027-03-31 12:00", "2027-04-30 12:00", "2027-05-31 12:00", "2027-06-30 12:00"}},
		"from the due time": {job("R3/P1M", "2027-01-01 12:00", "2027-02-28 12:00", func(j *carillon.Job) {
			j.Due, j.Status.Counters.Fired = carillon.At(at("2027-01-31 12:00")), 1
		}), []string{"2027-02-28 12:00", "2027-03-31 12:00"}},
		"from the last put": {job("R/P1M", "2027-01-15 09:00", "2027-02-28 12:00", func(j *carillon.Job) {
			j.Repeats, j.Status.Counters.Fired, j.Status.Updated = 2, 7, at("2027-01-31 12:00")
		}), []string{"2027-02-28 12:00", "2027-03-31 12:00"}},
		"the end of its life": {job("@hourly", "2027-01-01 00:30", "2027-01-01 02:00", func(j *carillon.Job) {
			j.TTL = carillon.In(3 * time.Hour)
		}), []string{"2027-01-01 02:00", "2027-01-01 03:00"}},
		"paused": {job("@hourly", "2027-01-01 00:30", "2027-01-01 02:00", func(j *carillon.Job) { j.Paused = true }), nil},
	} {
		s, err := is.job.ParseSchedule()
		if err != nil {
			t.Fatal(err)
		}
		got := nextTimes(is.job, s, nil)
		same := len(got) == len(is.want)
		for i := range got {
			same = same && got[i].Equal(at(is.want[i]))
		}
		if !same {
			t.Errorf("%s: %v, want %v", name, got, is.want)
		}
	}
}
