package schedule_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/carillonhq/carillon/schedule"
)

var seeds = []string{
	"", "* * * * *", "0 30 2 * * MON-FRI", "*/5 22-2 1,15,L-3,LW,15W * ?",
	"0 0 0 ? * FRIL,MON#2 2026-2030/2", "0 0 13 * +FRI", "0 0 30 2 *", "TZ=America/New_York 30 2 * * *",
	"CRON_TZ=Pacific/Apia @daily", "@every 90s", "@every 1h/19m", "@every P1DT1H",
	"@every 2562047h47m16.854775807s/1ns", "R4/PT3S", "R/P1M", "R4/2026-01-01T00:00:00Z/PT15M",
	"R/9999-12-31T23:59:59Z/P9999Y", "R18446744073709551615/0001-01-01T00:00:00Z/PT0.001S",
	"R/0001-01-01T00:00:00Z/P1DT2562047H", "R/P120000M3660000DT1S", "L W # ? +", "0 0 0 29 2 +SUN 2028",
}

// zone takes some zone from a number.
func zone(n uint8) *time.Location {
	loc, err := time.LoadLocation(stretches[int(n)%len(stretches)].zone)
	if err != nil {
		panic(err)
	}
	return loc
}

func FuzzParse(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := schedule.Parse(text, schedule.Options{})
		if err != nil {
			checkFault(t, text, err)
			return
		}
		if s.String() != text {
			t.Errorf("%q became %q", text, s)
		}
		again, err := schedule.Parse(" "+text+"\n", schedule.Options{})
		if err != nil {
			t.Fatalf("%q is refused with blanks around it: %v", text, err)
		}
		anchor := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
		a, okA := s.Next(anchor, anchor)
		b, okB := again.Next(anchor, anchor)
		if a != b || okA != okB {
			t.Errorf("%q: %v with blanks around it, %v without", text, b, a)
		}
	})
}

// checkFault: every error says where, inside the text.
func checkFault(t *testing.T, text string, err error) {
	t.Helper()
	var e *schedule.Error
	switch {
	case !errors.As(err, &e):
		t.Errorf("%q: %T", text, err)
	case e.Expr != text || e.Field == "" || e.Msg == "" || e.Pos < 0 || e.Pos > len(text) ||
		len(e.Error()) > 400:
		t.Errorf("%q: %#v", text, e)
	}
}

// FuzzNext asks any schedule about any instants, however absurd.
func FuzzNext(f *testing.F) {
	for i, s := range seeds {
		f.Add(s, uint8(i), i%2 == 0, int64(1772000000), int64(1), int64(1700000000))
		f.Add(s, uint8(i), i%2 == 1, int64(math.MinInt64), int64(0), int64(math.MaxInt64))
		f.Add(s, uint8(i), i%2 == 1, int64(253402300799), int64(999_999_999), int64(-62135596800))
	}
	f.Fuzz(func(t *testing.T, text string, z uint8, literal bool, unix, nanos, anchorUnix int64) {
		s, err := schedule.Parse(text, schedule.Options{Location: zone(z), Literal: literal})
		if err != nil {
			t.Skip()
		}
		after, anchor := time.Unix(unix, nanos%1e9), time.Unix(anchorUnix, 0)
		next, ok := s.Next(after, anchor)
		if ok {
			if !next.After(after) || next.Year() < 1 || next.Year() > 9999 || next.Location() != time.UTC {
				t.Fatalf("%q after %v: %v", text, after, next)
			}
			if before, _ := s.Next(next.Add(-1), anchor); before != next {
				t.Fatalf("%q: %v after %v, %v just before that", text, next, after, before)
			}
			if last, _ := s.Last(next, anchor); last != next {
				t.Fatalf("%q: last at %v is %v", text, next, last)
			}
			if n := s.Count(after, next, anchor, 5); n != 1 {
				t.Fatalf("%q: %d fire times in (%v, %v]", text, n, after, next)
			}
		} else if !next.IsZero() {
			t.Fatalf("%q: not ok, but %v", text, next)
		}
		last, ok := s.Last(after, anchor)
		if ok && last.After(after) || !ok && !last.IsZero() {
			t.Fatalf("%q: last at %v is %v %v", text, after, last, ok)
		}
	})
}

func FuzzParseTime(f *testing.F) {
	for _, s := range []string{"", "90s", "1h30m", "PT3S", "P1M", "P1Y2M3W4DT5H6M7.8S",
		"2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5+23:59", "P9999Y", "-1s"} {
		f.Add(s, int64(1772000000), uint8(1))
		f.Add(s, int64(math.MaxInt64), uint8(2))
	}
	f.Fuzz(func(t *testing.T, text string, unix int64, z uint8) {
		now := time.Unix(unix, 0)
		got, relative, err := schedule.ParseTime(text, now, zone(z))
		switch {
		case err != nil:
			checkFault(t, text, err)
		case got.Year() < 1 || got.Year() > 9999 || got.Location() != time.UTC:
			t.Errorf("%q: %v", text, got)
		case relative && got.Before(now):
			t.Errorf("%q from %v is %v", text, now, got)
		}
	})
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"", "90s", "1h30m", "PT3S", "P1W2DT5H6M7.8S", "PT9223372036.854775807S",
		"P106751D", "-1s", "P1M"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := schedule.ParseDuration(text)
		switch {
		case err != nil:
			checkFault(t, text, err)
		case d < 0:
			t.Errorf("%q: %v", text, d)
		default:
			if again, err := schedule.ParseDuration(d.String()); err != nil || again != d {
				t.Errorf("%q: %v, but %q: %v %v", text, d, d, again, err)
			}
		}
	})
}
