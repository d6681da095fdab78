package cron

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dapr/kit/cron"

	"github.com/carillonhq/carillon/schedule"
	"github.com/carillonhq/carillon/server/internal/daprrecord"
)

// parser is that of Dapr's scheduler.
var parser = cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// How many schedules are compared, and how many times of each.
const (
	schedules = 50_000
	times     = 4
)

// zones have changes of the clocks by an hour and by half of one. Those that skip midnight (Havana, Beirut)
// are left out: Dapr's parser passes over times there, and for some schedules it never comes back.
var zones = []string{"", "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata",
	"Africa/Casablanca", "America/St_Johns", "Asia/Tokyo", "Pacific/Chatham"}

func TestSchedules(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	good, compared := 0, 0
	for range schedules {
		text := draw(random)
		theirs, err := parse(text)
		ours, ourErr := daprrecord.ScheduleText(text)
		if err == nil && ourErr != nil && strings.HasSuffix(ourErr.Error(), "it has no value") {
			continue // a field of commas alone: Dapr takes it for one that nothing matches
		}
		if (err == nil) != (ourErr == nil) {
			t.Fatalf("%q: Dapr says %v, Carillon says %v", text, err, ourErr)
		}
		if err != nil {
			continue
		}
		good++
		s, err := schedule.Parse(ours, schedule.Options{Literal: true})
		if err != nil {
			if !never(theirs) {
				t.Fatalf("%q is %q, which is refused: %v", text, ours, err)
			}
			continue
		}
		compared++
		compare(t, text, theirs, s, begin(random))
	}
	if good < schedules/4 || compared < good/2 {
		t.Errorf("of %d schedules %d were good and %d were compared", schedules, good, compared)
	}
}

// parse is Dapr's parser.
func parse(text string) (s cron.Schedule, err error) { return parser.Parse(text) }

// compare holds the next times against each other. Dapr's scheduler looks no further than five years.
func compare(t *testing.T, text string, theirs cron.Schedule, ours *schedule.Schedule, from time.Time) {
	t.Helper()
	if alwaysDue(theirs) {
		if ours.Period() != time.Millisecond {
			t.Fatalf("%q is every %v", text, ours.Period())
		}
		return
	}
	anchor := from
	for range times {
		want := theirs.Next(from)
		got, ok := ours.Next(from, anchor)
		switch {
		case want.IsZero() && (!ok || got.After(from.AddDate(4, 0, 0))):
			return
		case ok && got.Before(want) && oddClocks(text) && matches(theirs, got):
			return // Dapr's parser loses its way there, and passes over times
		case !ok || !got.Equal(want):
			t.Fatalf("%q after %v: Dapr has %v, Carillon has %v", text, from, want, got)
		}
		from = want
	}
}

// oddClocks reports whether the clocks of the schedule's zone change by half an hour.
func oddClocks(text string) bool { return strings.Contains(text, "Australia/Lord_Howe") }

// matches reports whether Dapr's schedule has a time.
func matches(s cron.Schedule, at time.Time) bool {
	spec, ok := s.(*cron.SpecSchedule)
	if !ok {
		return false
	}
	const star = 1 << 63
	at = at.In(spec.Location)
	has := func(set uint64, v int) bool { return set&(1<<v) != 0 }
	date, weekday := has(spec.Dom, at.Day()), has(spec.Dow, int(at.Weekday()))
	if spec.Dom&star != 0 || spec.Dow&star != 0 {
		date, weekday = date && weekday, false
	}
	return (date || weekday) && has(spec.Month, int(at.Month())) && has(spec.Hour, at.Hour()) &&
		has(spec.Minute, at.Minute()) &&
		has(spec.Second, at.Second())
}

// never reports whether Dapr finds no time.
func never(s cron.Schedule) bool {
	return !alwaysDue(s) && s.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero()
}

// alwaysDue reports whether Dapr has an interval that is shorter than any that Carillon has.
func alwaysDue(s cron.Schedule) bool {
	every, ok := s.(cron.ConstantDelaySchedule)
	return ok && every.Delay < time.Millisecond
}

// begin is a moment, often shortly before the clocks change.
func begin(random *rand.Rand) time.Time {
	day := time.Date(2024+random.IntN(3), time.Month(1+random.IntN(12)), 1+random.IntN(28), 0, 0, 0, 0, time.UTC)
	changes := []time.Time{
		time.Date(2024, 3, 31, 0, 0, 0, 0, time.UTC), time.Date(2024, 10, 27, 0, 0, 0, 0, time.UTC),
		time.Date(2024, 3, 10, 5, 0, 0, 0, time.UTC), time.Date(2024, 11, 3, 4, 0, 0, 0, time.UTC),
		time.Date(2024, 4, 6, 14, 0, 0, 0, time.UTC), time.Date(2024, 10, 5, 14, 0, 0, 0, time.UTC),
		time.Date(2018, 11, 4, 1, 0, 0, 0, time.UTC), time.Date(2018, 2, 17, 23, 0, 0, 0, time.UTC),
		time.Date(2024, 3, 30, 20, 0, 0, 0, time.UTC), time.Date(2011, 12, 30, 5, 0, 0, 0, time.UTC),
	}
	if random.IntN(2) == 0 {
		day = changes[random.IntN(len(changes))]
	}
	return day.Add(time.Duration(random.Int64N(int64(6 * time.Hour))))
}

// draw is a text that may be a schedule.
func draw(random *rand.Rand) string {
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	zone := ""
	if random.IntN(2) == 0 {
		zone = pick("TZ=", "TZ=", "CRON_TZ=") + zones[random.IntN(len(zones))] + pick(" ", " ", " ",
			" ", " ", "  ", "\t")
	}
	switch random.IntN(20) {
	case 0:
		return zone + pick("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly",
			"@Daily", "@reboot", "@daily ", " @daily")
	case 1:
		return zone + "@every " + pick("1s", "90s", "1h30m", "1.5s", "500ms", "-1s", "0", "0s", "1d", "PT1H",
			" 1s", "", "1us")
	case 2:
		return zone + pick("", " ", "0 0 0 1 1", "0 0 0 1 1 * *", "R/PT1H", "TZ=UTC", "x")
	}
	sizes := [6][3]int{{0, 59, 60}, {0, 59, 60}, {0, 23, 24}, {1, 31, 31}, {1, 12, 12}, {0, 6, 7}}
	names := [6][]string{4: {"jan", "FEB", "Mar", "dec"}, 5: {"sun", "MON", "Fri", "sat"}}
	var fields []string
	for i, size := range sizes {
		var items []string
		for range max(1, random.IntN(6)-3) {
			items = append(items, item(random, size[0], size[1], names[i]))
		}
		fields = append(fields, strings.Join(items, ","))
	}
	return zone + strings.Join(fields, pick(" ", " ", " ", " ", "  ", "\t"))
}

// item is one item of a field, mostly a good one.
func item(random *rand.Rand, least, most int, names []string) string {
	value := func() string {
		switch {
		case len(names) > 0 && random.IntN(4) == 0:
			return names[random.IntN(len(names))]
		case random.IntN(200) == 0:
			return []string{"L", "", "+3", "007", "-1", "99", strconv.Itoa(most + 1), strconv.Itoa(least - 1), "1W",
				"*"}[random.IntN(10)]
		}
		return strconv.Itoa(least + random.IntN(most-least+1))
	}
	step := ""
	if random.IntN(4) == 0 {
		step = "/" + strconv.Itoa(1+random.IntN(12))
		if random.IntN(60) == 0 {
			step = []string{"/0", "/100", "/", "/x", "/1/2", "/+2", "/1"}[random.IntN(7)]
		}
	}
	switch random.IntN(12) {
	case 0, 1, 2, 3, 4:
		return "*" + step
	case 5:
		return []string{"?", "?", "?", "*-5", "?-x", ""}[random.IntN(6)] + step
	case 6, 7:
		a, b := least+random.IntN(most-least+1), least+random.IntN(most-least+1)
		if random.IntN(20) != 0 {
			a, b = min(a, b), max(a, b)
		}
		return strconv.Itoa(a) + "-" + strconv.Itoa(b) + step
	default:
		return value() + step
	}
}
