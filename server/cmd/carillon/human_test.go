package main

import (
	"testing"
	"time"
)

func TestTimesAsPeopleWriteThem(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2027, 3, 27, 10, 30, 0, 0, berlin) // a Saturday; the clocks change that night
	for text, want := range map[string]string{
		"2027-01-31T08:00:00Z": "2027-01-31T09:00:00+01:00", "2027-01-31": "2027-01-31T00:00:00+01:00",
		"2027-07-01 08:00": "2027-07-01T08:00:00+02:00", "2027-07-01T08:00:30": "2027-07-01T08:00:30+02:00",
		"now": "2027-03-27T10:30:00+01:00", "today 23:00": "2027-03-27T23:00:00+01:00",
		"today 09:00": "2027-03-27T09:00:00+01:00", "tomorrow": "2027-03-28T00:00:00+01:00",
		"Tomorrow  09:00": "2027-03-28T09:00:00+02:00", "tomorrow at 9am": "2027-03-28T09:00:00+02:00",
		"yesterday noon": "2027-03-26T12:00:00+01:00", "18:30": "2027-03-27T18:30:00+01:00",
		"09:15:20": "2027-03-28T09:15:20+02:00", "mon 12:00": "2027-03-29T12:00:00+02:00",
		"saturday 11:00": "2027-03-27T11:00:00+01:00", "saturday 10:00": "2027-04-03T10:00:00+02:00",
		"": "", "soon": "", "25:00": "", "tomorrow 25:00": "", "2027-02-30": "", "1d": "", "monday morning": "",
	} {
		got, err := parseInstant(text, now, berlin)
		if (err != nil) != (want == "") || err == nil && got.In(berlin).Format(time.RFC3339) != want {
			t.Errorf("%q: %v, %v; want %s", text, got, err, want)
		}
	}
}

func TestDurationsWithDaysAndWeeks(t *testing.T) {
	for text, want := range map[string]time.Duration{"1d": 24 * time.Hour, "2w": 14 * 24 * time.Hour,
		"1w2d3h": 219 * time.Hour, "90m": 90 * time.Minute, "PT5M": 5 * time.Minute, "0d": 0,
		"1d-3h": -1, "d": -1, "1d2": -1, "1.5d": -1, "99999w": -1} {
		got, err := parseSpan(text)
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestHowFarTimesAre(t *testing.T) {
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{0: "now", 900 * time.Millisecond: "now", time.Second: "in 1s",
		-61 * time.Second: "1m1s ago", 12*time.Minute + 5*time.Second: "in 12m", 26 * time.Hour: "in 1d2h",
		-40 * 24 * time.Hour: "40d ago", 800 * 24 * time.Hour: "in 2y70d", 2*time.Hour + time.Second: "in 2h"} {
		if got := ago(now.Add(d), now); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	if ago(time.Time{}, now) != "" || localTime(time.Time{}) != "" {
		t.Error("the zero time is shown")
	}
}
