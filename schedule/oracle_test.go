package schedule_test

import (
	"flag"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon/schedule"
)

var oracleSamples = flag.Int("oracle", 10,
	"random expressions per stretch of days held against the second-by-second oracle")
var oracleSeed = flag.Uint64("oracle.seed", 1, "seed of the random expressions")

// stretches are days around changes of the clocks, each odd in its own way.
var stretches = []struct{ zone, date string }{
	{"UTC", "2026-02-28"},
	{"America/New_York", "2026-03-08"}, {"America/New_York", "2026-11-01"},
	{"America/New_York", "2040-11-04"},                               // by the footer rule of the zone file
	{"America/New_York", "1883-11-18"},                               // local mean time, off by seconds
	{"Europe/London", "2026-03-29"}, {"Europe/London", "2026-10-25"}, // clocks change at 01:00
	{"Europe/London", "1941-05-04"}, {"Europe/London", "1947-04-13"}, // double summer time
	{"Australia/Lord_Howe", "2026-04-05"}, {"Australia/Lord_Howe", "2026-10-04"}, // half an hour
	{"Pacific/Chatham", "2026-04-05"}, {"Pacific/Chatham", "2026-09-27"}, // 02:45
	{"Antarctica/Troll", "2026-03-29"}, {"Antarctica/Troll", "2026-10-25"}, // two hours
	{"America/Havana", "2026-03-08"}, {"America/Havana", "2026-11-01"}, // gap from 00:00
	{"America/Sao_Paulo", "2018-11-04"}, {"America/Sao_Paulo", "2018-02-18"}, // gap from 00:00, overlap to 00:00
	{"Asia/Beirut", "2026-03-29"}, {"Asia/Beirut", "2026-10-25"},
	// gap up to midnight
	{"America/Nuuk", "2023-03-26"}, {"America/Nuuk", "2024-03-31"}, {"America/Nuuk", "2026-10-25"},
	// zone and summer time change at once
	{"America/Scoresbysund", "2024-03-31"},
	{"Africa/Casablanca", "2026-02-15"}, {"Africa/Casablanca", "2026-03-22"}, // Ramadan, negative summer time
	{"Europe/Dublin", "2026-03-29"}, {"Europe/Dublin", "2026-10-25"}, // negative summer time
	{"Africa/Cairo", "2026-04-24"}, {"Africa/Cairo", "2026-10-30"},
	{"Asia/Kathmandu", "1986-01-01"}, {"Asia/Kathmandu", "2026-01-01"}, // +05:30 to +05:45
	{"Pacific/Apia", "2011-12-30"}, {"Pacific/Apia", "2012-04-01"}, // a day skipped
	{"Pacific/Kwajalein", "1993-08-21"}, {"Pacific/Kwajalein", "1969-10-01"}, // a day skipped, one repeated
	{"America/Juneau", "1867-10-18"},                                       // a day repeated, local mean time
	{"Antarctica/Casey", "2009-10-18"}, {"Antarctica/Casey", "2010-03-05"}, // three hours exactly
	{"America/Caracas", "2007-12-09"}, {"America/Caracas", "2016-05-01"},
	{"Asia/Pyongyang", "2018-05-05"},
	{"Africa/Monrovia", "1972-01-07"}, // 44 minutes 30 seconds
	// changes of zone that ZoneBounds
	{"America/Metlakatla", "2019-01-20"}, {"America/Ciudad_Juarez", "2022-11-30"},
	{"America/Indiana/Winamac", "2007-03-11"}, // begins too early, with the embedded data
	{"Europe/Berlin", "2040-12-31"},           // the year ends a day early for ZoneBounds (golang/go#81583)
}

// stretch is every second of some days and what the wall clock showed, as if that were UTC.
type stretch struct {
	start time.Time
	wall  []time.Time
}

func newStretch(t *testing.T, zone, date string) stretch {
	t.Helper()
	loc := zoneOf(t, zone)
	s := stretch{start: at(t, date+"T00:00:00Z").Add(-20 * time.Hour)}
	for i := range 52 * 3600 {
		here := s.start.Add(time.Duration(i) * time.Second).In(loc)
		y, m, d := here.Date()
		h, min, sec := here.Clock()
		s.wall = append(s.wall, time.Date(y, m, d, h, min, sec, 0, time.UTC))
	}
	return s
}

// aReading prefers the hours around a change of the clocks.
func (s stretch) aReading(pick choose) time.Time {
	for i := 1; i < len(s.wall); i++ {
		if s.wall[i].Sub(s.wall[i-1]) != time.Second && pick(8) > 0 {
			return s.wall[i].Add(time.Duration(pick(4*3600)-3*3600) * time.Second)
		}
	}
	return s.wall[pick(len(s.wall))]
}

// fires walks the stretch second by second and applies the rules in the dumbest way.
func (s stretch) fires(x sample, literal bool) (seconds []int) {
	matches := x.matcher()
	var shownUntil time.Time // by the clocks, before they were set back
	for i, wall := range s.wall {
		if i > 0 && x.fixed && !literal {
			switch jump := wall.Sub(s.wall[i-1]) - time.Second; {
			case jump > 0 && jump <= 3*time.Hour:
				made := false
				for skipped := s.wall[i-1].Add(time.Second); skipped.Before(wall); skipped = skipped.Add(time.Second) {
					made = made || matches(skipped)
				}
				if made {
					seconds = append(seconds, i)
					continue
				}
			case jump < 0 && jump >= -3*time.Hour:
				shownUntil = s.wall[i-1]
			}
			if !wall.After(shownUntil) {
				continue
			}
		}
		if matches(wall) {
			seconds = append(seconds, i)
		}
	}
	return seconds
}

// matcher asks about each date once.
func (x sample) matcher() func(time.Time) bool {
	dates := map[int64]bool{}
	var lastDay int64 = -1 << 60
	dayMatches := false
	return func(wall time.Time) bool {
		unix := wall.Unix() + 1<<40/86400*86400 // positive
		second := int(unix % 86400)
		if day := unix / 86400; day != lastDay {
			match, known := dates[day]
			if !known {
				match = x.date(wall.Date())
				dates[day] = match
			}
			lastDay, dayMatches = day, match
		}
		return dayMatches && x.second(second%60) && x.minute(second/60%60) && x.hour(second/3600)
	}
}

// TestAgainstOracle holds Next against the oracle, over random expressions, around odd changes, in both
// modes.
func TestAgainstOracle(t *testing.T) {
	if testing.Short() {
		t.Skip("it is long; go test without -short runs it")
	}
	for _, days := range stretches {
		t.Run(days.zone+"/"+days.date, func(t *testing.T) {
			t.Parallel()
			s := newStretch(t, days.zone, days.date)
			loc := zoneOf(t, days.zone)
			seed := fnv.New64a()
			seed.Write([]byte(t.Name()))
			random := rand.New(rand.NewPCG(*oracleSeed, seed.Sum64()))
			fired := 0
			for range *oracleSamples {
				x := newSample(random.IntN, s.aReading(random.IntN))
				for _, literal := range []bool{false, true} {
					fired += s.compare(t, x, schedule.Options{Location: loc, Literal: literal})
				}
			}
			if fired == 0 {
				t.Error("nothing fired: the test has shown nothing")
			}
			for range *oracleSamples {
				s.compareOneDay(t, random.IntN(24*3600), loc)
			}
		})
	}
}

// compare walks Next over the stretch.
func (s stretch) compare(t *testing.T, x sample, opt schedule.Options) int {
	t.Helper()
	want := s.fires(x, opt.Literal)
	parsed, err := schedule.Parse(x.expr, opt)
	if err != nil {
		if len(want) > 0 {
			t.Errorf("%s: refused, but fires: %v", x.expr, err)
		}
		return 0
	}
	end := s.start.Add(time.Duration(len(s.wall)) * time.Second)
	after := s.start.Add(-time.Nanosecond)
	for i := 0; ; i++ {
		next, ok := parsed.Next(after, s.start)
		over := !ok || !next.Before(end)
		switch {
		case over && i == len(want):
			return i
		case over:
			t.Fatalf("%s (literal %v): after %v got %v (%v), want %v", x.expr, opt.Literal, after, next, ok,
				s.describe(want[i], opt))
		case i == len(want):
			t.Fatalf("%s (literal %v): after %v got %v, want nothing more", x.expr, opt.Literal, after,
				next.In(opt.Location))
		}
		if expected := s.start.Add(time.Duration(want[i]) * time.Second); !next.Equal(expected) {
			t.Fatalf("%s (literal %v): after %v got %v, want %v", x.expr, opt.Literal, after,
				next.In(opt.Location), s.describe(want[i], opt))
		}
		after = next
	}
}

// compareOneDay holds the calendar part of a period against the oracle: from one second of the stretch, P1D
// leads to the first second that shows the same time of the next day, or, when none does, to the first that
// shows a later one.
func (s stretch) compareOneDay(t *testing.T, second int, loc *time.Location) {
	t.Helper()
	target := s.wall[second].Add(24 * time.Hour)
	want := slices.IndexFunc(s.wall, func(wall time.Time) bool { return wall.Equal(target) })
	if want < 0 {
		want = slices.IndexFunc(s.wall, func(wall time.Time) bool { return wall.After(target) })
	}
	if want < 0 {
		return // beyond the stretch
	}
	now := s.start.Add(time.Duration(second) * time.Second)
	expected := s.start.Add(time.Duration(want) * time.Second)
	if got, _, err := schedule.ParseTime("P1D", now, loc); err != nil || !got.Equal(expected) {
		t.Errorf("P1D from %v: got %v (%v), want %v", now.In(loc), got.In(loc), err, expected.In(loc))
	}
}

func (s stretch) describe(second int, opt schedule.Options) string {
	return s.start.Add(time.Duration(second) * time.Second).In(opt.Location).String()
}
