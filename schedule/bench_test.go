package schedule_test

import (
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/carillonhq/carillon/schedule"
)

var benchmarked = []struct{ name, expr string }{
	{"EveryMinute", "0 * * * * *"},
	{"EveryFiveMinutes", "0 */5 * * * *"},
	{"Daily", "0 30 2 * * *"},
	{"Weekdays", "0 0 9 * * MON-FRI"},
	{"Monthly", "0 0 0 1 * *"},
	{"LeapDay", "0 0 12 29 2 *"},
}

var robfigParser = cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// BenchmarkNext walks from fire time to fire time from November 2026 on, starting over every 100 of them.
func BenchmarkNext(b *testing.B) {
	for _, zone := range []string{"UTC", "America/New_York"} {
		loc := zoneOf(b, zone)
		start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		for _, c := range benchmarked {
			b.Run("carillon/"+c.name+"/"+zone, func(b *testing.B) {
				s := parsed(b, c.expr, schedule.Options{Location: loc})
				b.ReportAllocs()
				for t, i := start, 0; b.Loop(); i++ {
					if t, _ = s.Next(t, start); i%100 == 0 {
						t = start
					}
				}
			})
			b.Run("robfig/"+c.name+"/"+zone, func(b *testing.B) {
				s, err := robfigParser.Parse("TZ=" + zone + " " + c.expr)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for t, i := start, 0; b.Loop(); i++ {
					if t = s.Next(t); t.IsZero() || i%100 == 0 {
						t = start
					}
				}
			})
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for _, c := range benchmarked {
		b.Run("carillon/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := schedule.Parse(c.expr, schedule.Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("robfig/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := robfigParser.Parse(c.expr); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkImpossible is the proof that an expression never fires, the reading of it included.
func BenchmarkImpossible(b *testing.B) {
	for _, c := range []struct{ name, expr string }{
		{"Feb30", "0 0 0 30 2 *"},
		{"NearestOnSaturday", "0 0 0 1W,2W,3W,4W,5W,6W,7W,8W,9W,10W,20W,31W * +SAT"},
		{"NearestOnSaturdayYears", "0 0 0 1W,2W,3W,4W,5W,6W,7W,8W,9W,10W,20W,31W * +SAT 1970-2199"},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := schedule.Parse(c.expr, schedule.Options{}); err == nil {
					b.Fatal("accepted")
				}
			}
		})
	}
}

// BenchmarkNeverShown is the longest search: a time that the clocks skip on each of its dates, for four
// hundred years.
func BenchmarkNeverShown(b *testing.B) {
	s := parsed(b, "0/30 30 2 8-14 3 +SUN", schedule.Options{Location: zoneOf(b, "America/New_York")})
	after := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for b.Loop() {
		if t, ok := s.Next(after, after); ok {
			b.Fatal(t)
		}
	}
}

func BenchmarkLast(b *testing.B) {
	until := time.Date(2026, 11, 20, 10, 30, 30, 0, time.UTC)
	for _, expr := range []string{"0 * * * * *", "0 30 2 * * *", "0 0 12 29 2 *", "@every 1s", "R/P1M"} {
		b.Run(expr, func(b *testing.B) {
			s := parsed(b, expr, schedule.Options{Location: zoneOf(b, "America/New_York")})
			for b.Loop() {
				s.Last(until, time.Unix(0, 0))
			}
		})
	}
}
