package schedule_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/schedule"
)

// moment is a schedule of any kind, an anchor, and an instant to ask about, often near a change of the
// clocks.
type moment struct {
	s      *schedule.Schedule
	anchor time.Time
	when   time.Time
}

func (m moment) next(after time.Time) (time.Time, bool) { return m.s.Next(after, m.anchor) }

func drawMoment(t *rapid.T) moment {
	days := rapid.SampledFrom(stretches).Draw(t, "stretch")
	loc, err := time.LoadLocation(days.zone)
	if err != nil {
		t.Fatal(err)
	}
	day, err := time.Parse(time.DateOnly, days.date)
	if err != nil {
		t.Fatal(err)
	}
	second := func(name string, within int) time.Time {
		return day.Add(time.Duration(rapid.IntRange(-within, within).Draw(t, name))*time.Second +
			time.Duration(rapid.SampledFrom([]int{0, 0, 1, 999_999_999}).Draw(t, name+" ns")))
	}
	expr := drawExpr(t, second("near", 30*3600).In(loc))
	literal := rapid.Bool().Draw(t, "literal")
	s, err := schedule.Parse(expr, schedule.Options{Location: loc, Literal: literal})
	if err != nil {
		t.Skip(err)
	}
	t.Logf("%s in %s, literal %v", expr, loc, literal)
	return moment{s, second("anchor", 90*24*3600), second("when", 30*3600)}
}

func drawExpr(t *rapid.T, near time.Time) string {
	interval := rapid.SampledFrom([]string{"PT1S", "PT0.007S", "PT90M", "P1D", "P1M", "P1Y", "P1WT1H",
		"P1M1DT0.5S", "PT23H59M59S", "P1DT0.999S"}).Draw(t, "period")
	start := near.UTC().Format(time.RFC3339)
	runs := rapid.SampledFrom([]string{"", "1", "2", "50"}).Draw(t, "runs")
	switch rapid.IntRange(0, 8).Draw(t, "kind") {
	case 0:
		return "@every " + rapid.SampledFrom([]string{"1ms", "7s", "1h30m", "P1D", "1000h", "13m0.25s"}).Draw(t,
			"interval")
	case 1:
		return "@every 1h13m/" + rapid.SampledFrom([]string{"0s", "19m", "1h12m59.999s"}).Draw(t, "phase")
	case 2:
		return fmt.Sprintf("R%s/%s", runs, interval)
	case 3:
		return fmt.Sprintf("R%s/%s/%s", runs, start, interval)
	}
	pick := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "pick") }
	return newSample(pick, near).expr
}

// TestNextProperties: strictly after, in order, and the same from anywhere between two fire times.
func TestNextProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMoment(t)
		next, ok := m.next(m.when)
		if !ok {
			if later, ok := m.next(m.when.Add(1000 * time.Hour)); ok {
				t.Fatalf("nothing after %v, but %v after that", m.when, later)
			}
			return
		}
		if !next.After(m.when) || next.Location() != time.UTC {
			t.Fatalf("next after %v is %v", m.when, next)
		}
		gap := min(next.Sub(m.when), 24*365*time.Hour)
		between := m.when.Add(time.Duration(rapid.Int64Range(0, int64(gap)-1).Draw(t, "between")))
		for _, after := range []time.Time{between, next.Add(-time.Nanosecond)} {
			if again, _ := m.next(after); again != next {
				t.Fatalf("after %v: %v, but after %v: %v", m.when, next, after, again)
			}
		}
		if second, ok := m.next(next); ok && !second.After(next) {
			t.Fatalf("%v, then %v", next, second)
		}
	})
}

// TestLastProperties: Last is the inverse of Next.
func TestLastProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMoment(t)
		last, ok := m.s.Last(m.when, m.anchor)
		next, more := m.next(m.when)
		if ok {
			if last.After(m.when) {
				t.Fatalf("last at or before %v is %v", m.when, last)
			}
			if again, _ := m.next(last.Add(-time.Nanosecond)); again != last {
				t.Fatalf("last is %v, which Next does not give (%v)", last, again)
			}
			if after, ok := m.next(last); ok != more || after != next {
				t.Fatalf("after the last, %v: %v; after %v: %v", last, after, m.when, next)
			}
		}
		if !more {
			return
		}
		if again, _ := m.s.Last(next, m.anchor); again != next {
			t.Fatalf("last at %v is %v", next, again)
		}
		if again, was := m.s.Last(next.Add(-time.Nanosecond), m.anchor); again != last || was != ok {
			t.Fatalf("last before %v is %v (%v), was %v (%v)", next, again, was, last, ok)
		}
	})
}

// TestCountProperties: Count is the number of steps of Next.
func TestCountProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMoment(t)
		steps, until := 0, m.when
		for steps < 20 {
			next, ok := m.next(until)
			if !ok {
				break
			}
			until = next
			steps++
		}
		if n := m.s.Count(m.when, until, m.anchor, 1000); n != steps {
			t.Fatalf("%d steps of Next in (%v, %v], Count says %d", steps, m.when, until, n)
		}
		limit := rapid.IntRange(0, steps).Draw(t, "limit")
		if n := m.s.Count(m.when, until, m.anchor, limit); n != limit {
			t.Fatalf("limit %d, Count says %d", limit, n)
		}
		if steps > 0 {
			if n := m.s.Count(m.when, until.Add(-time.Nanosecond), m.anchor, 1000); n != steps-1 {
				t.Fatalf("without the last: %d, want %d", n, steps-1)
			}
		}
	})
}
