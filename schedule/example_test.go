package schedule_test

import (
	"errors"
	"fmt"
	"time"
	_ "time/tzdata"

	"github.com/carillonhq/carillon/schedule"
)

func ExampleParse() {
	s, err := schedule.Parse("TZ=Europe/Paris 30 9 * * MON-FRI", schedule.Options{})
	if err != nil {
		panic(err)
	}
	t := time.Date(2026, 10, 23, 12, 0, 0, 0, time.UTC) // a Friday, the last one of summer time
	for range 2 {
		t, _ = s.Next(t, time.Time{})
		fmt.Println(t)
	}
	// Output:
	// 2026-10-26 08:30:00 +0000 UTC
	// 2026-10-27 08:30:00 +0000 UTC
}

func ExampleParse_error() {
	_, err := schedule.Parse("0 61 * * * *", schedule.Options{})
	fmt.Println(err)
	var e *schedule.Error
	fmt.Println(errors.As(err, &e), e.Field, e.Pos)
	_, err = schedule.Parse("0 0 30 2 *", schedule.Options{})
	fmt.Println(err)
	// Output:
	// schedule: minute at position 2: 61 is out of range 0-59
	// true minute 2
	// schedule: day of month at position 4: the schedule never fires: no month it allows has such a day in the 400-year cycle of the calendar
}

// A fixed time that the clocks skip runs when the gap ends; the next day is not affected.
func ExampleSchedule_Next_daylightSaving() {
	havana, _ := time.LoadLocation("America/Havana")
	s, _ := schedule.Parse("0 0 * * *", schedule.Options{Location: havana})
	t := time.Date(2026, 3, 7, 0, 0, 0, 0, havana)
	for range 2 {
		t, _ = s.Next(t, time.Time{})
		fmt.Println(t.In(havana))
	}
	// Output:
	// 2026-03-08 01:00:00 -0400 CDT
	// 2026-03-09 00:00:00 -0400 CDT
}

// Intervals count from their anchor, the first due time; it is a fire time itself.
func ExampleSchedule_Next_anchor() {
	s, _ := schedule.Parse("R/P1M", schedule.Options{})
	anchor := time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC)
	t := anchor.Add(-1)
	for range 3 {
		t, _ = s.Next(t, anchor)
		fmt.Println(t)
	}
	// Output:
	// 2026-01-31 09:00:00 +0000 UTC
	// 2026-02-28 09:00:00 +0000 UTC
	// 2026-03-31 09:00:00 +0000 UTC
}

// What a node that was away has missed: how many times, and the newest.
func ExampleSchedule_Last() {
	s, _ := schedule.Parse("@hourly", schedule.Options{})
	done := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := time.Date(2026, 1, 3, 10, 20, 0, 0, time.UTC)
	newest, _ := s.Last(now, done)
	fmt.Println(s.Count(done, now, done, 1000), newest)
	// Output: 58 2026-01-03 10:00:00 +0000 UTC
}

func ExampleParseTime() {
	now := time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC)
	for _, text := range []string{"2026-02-01T12:00:00+02:00", "1h30m", "P1M"} {
		t, relative, _ := schedule.ParseTime(text, now, nil)
		fmt.Println(t, relative)
	}
	// Output:
	// 2026-02-01 10:00:00 +0000 UTC false
	// 2026-01-31 10:30:00 +0000 UTC true
	// 2026-02-28 09:00:00 +0000 UTC true
}

func ExampleParseDuration() {
	d, _ := schedule.ParseDuration("P1DT12H")
	fmt.Println(d)
	_, err := schedule.ParseDuration("P1M")
	fmt.Println(err)
	// Output:
	// 36h0m0s
	// schedule: duration at position 0: "P1M" has years or months, whose length varies
}
