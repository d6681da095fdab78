package main

import (
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

// TestDescriptionOfTimes: what the node answers about the next times of a job is shown, each with what is to be
// known of it.
func TestDescriptionOfTimes(t *testing.T) {
	now := time.Date(2027, 3, 27, 12, 0, 0, 0, time.UTC)
	at := time.Date(2027, 3, 28, 7, 30, 0, 0, time.UTC)
	job := carillon.Job{Schedule: "30 9 * * *", TimeZone: "Europe/Berlin"}
	text := scheduleText(&job, &carillon.Timetable{Times: []carillon.PlannedTime{
		{Scheduled: now.Add(-time.Hour), Due: now.Add(-time.Hour), Past: true},
		{Scheduled: at, Due: at.Add(90 * time.Second), Shift: time.Hour},
		{Scheduled: at, Due: at, Shift: -30 * time.Minute},
	}, End: &carillon.TimesEnd{Code: carillon.EndTTL, Text: "Its life ends."}}, now)
	for _, want := range []string{"Sat 2027-03-27 12:00:00 CET", "due, and waits\n", "Sun 2027-03-28 09:30:00 CEST",
		"clocks go forward by 1h0m0s, due 1m30s later by its jitter\n", "clocks go back by 30m0s\n", "\nNo more runs: Its life ends.\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	excluded := carillon.ExcludedTime{At: at}
	if got := leftOut(&excluded, now); !strings.HasSuffix(got, " is in no calendar of only") {
		t.Error(got)
	}
	excluded.By = []string{"one", "two"}
	if got := leftOut(&excluded, now); !strings.HasSuffix(got, " is in one, two") {
		t.Error(got)
	}
}
