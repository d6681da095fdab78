package schedule_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/schedule"
)

// drawSet draws a set, with its members parsed one by one.
func drawSet(t *rapid.T) (set moment, members []*schedule.Schedule) {
	first := drawMoment(t)
	texts := []string{first.s.String()}
	opt := schedule.Options{Location: zones(t)}
	for range rapid.IntRange(1, 3).Draw(t, "more") {
		texts = append(texts, drawExpr(t, first.when.In(opt.Location)))
	}
	for _, text := range texts {
		m, err := schedule.Parse(text, opt)
		if err != nil {
			t.Skip(err)
		}
		members = append(members, m)
	}
	s, err := schedule.Parse(strings.Join(texts, " ; "), opt)
	if counted(members) {
		if err == nil || !strings.Contains(err.Error(), "give it a start") {
			t.Fatalf("%q: %v", texts, err)
		}
		t.Skip("it counts runs")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s in %s", s, opt.Location)
	return moment{s, first.anchor, first.when}, members
}

func zones(t *rapid.T) *time.Location {
	loc, err := time.LoadLocation(rapid.SampledFrom(stretches).Draw(t, "zone").zone)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// counted reports whether a member counts runs from the anchor.
func counted(members []*schedule.Schedule) bool {
	for _, m := range members {
		_, limited := m.Repeats()
		if _, started := m.Start(); limited && !started {
			return true
		}
	}
	return false
}

// TestSetIsTheUnionOfItsMembers compares a set with the plainest one: all times of all members, once each.
func TestSetIsTheUnionOfItsMembers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, members := drawSet(t)
		until := m.when.Add(time.Duration(rapid.IntRange(1, 48*3600).Draw(t, "long")) * time.Second)
		const most = 200 // times of a member
		all, newest := map[time.Time]bool{}, time.Time{}
		for _, s := range members {
			after, n := m.when, 0
			for ; n < most; n++ {
				next, ok := s.Next(after, m.anchor)
				if !ok || next.After(until) {
					break
				}
				all[next], after = true, next
			}
			if n == most {
				until = after // the others are compared up to there
			}
			if last, ok := s.Last(m.when, m.anchor); ok && last.After(newest) {
				newest = last
			}
		}
		want := 0
		for at := range all {
			if !at.After(until) {
				want++
			}
		}
		n := 0
		for after := m.when; ; n++ {
			next, ok := m.next(after)
			if !ok || next.After(until) {
				break
			}
			if !all[next] || !next.After(after) {
				t.Fatalf("after %v comes %v", after, next)
			}
			after = next
		}
		if n != want {
			t.Fatalf("%d times in (%v, %v], members have %d", n, m.when, until, want)
		}
		if got := m.s.Count(m.when, until, m.anchor, 10*most); got != want {
			t.Fatalf("Count says %d, not %d", got, want)
		}
		if last, ok := m.s.Last(m.when, m.anchor); ok != !newest.IsZero() || last != newest {
			t.Fatalf("last is %v, %v; members have %v", last, ok, newest)
		}
	})
}

// TestExtendedHasTheSameTimesFromTheAnchorOn and, of each @every, those before.
func TestExtendedHasTheSameTimesFromTheAnchorOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMoment(t)
		e := m.s.Extended(m.anchor)
		at := m.anchor.Add(time.Duration(rapid.Int64Range(-1, int64(3*time.Hour)).Draw(t, "from")))
		a, okA := m.s.Next(at, m.anchor)
		b, okB := e.Next(at, m.anchor)
		if a != b || okA != okB {
			t.Fatalf("after %v: %v, extended %v", at, a, b)
		}
		text := m.s.String()
		if !strings.HasPrefix(text, "@every") || strings.Contains(text, "/") {
			return
		}
		before, ok := e.Last(m.anchor.Add(-1), m.anchor)
		if !ok || m.anchor.Sub(before) != m.s.Period() {
			t.Fatalf("before the anchor %v comes %v", m.anchor, before)
		}
	})
}

func TestExtendedSet(t *testing.T) {
	anchor := at(t, "2026-12-01T10:30:00Z")
	s := parsed(t, "@every 2h; R/PT1H; 0 0 7 * * *", schedule.Options{})
	e := s.Extended(anchor)
	from, got := anchor.Add(-4*time.Hour), ""
	for range 5 {
		next, ok := e.Next(from, anchor)
		if !ok {
			t.Fatal("no end was expected")
		}
		from, got = next, got+" "+next.Format("15:04")
	}
	if want := " 07:00 08:30 10:30 11:30 12:30"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	if _, ok := s.Last(anchor.Add(-4*time.Hour), anchor); !ok || !s.Anchored() {
		t.Error("the set itself has changed")
	}
}

func TestSetSaysWhatIsWrongAndWhere(t *testing.T) {
	for _, c := range []struct {
		text  string
		field string
		pos   int
		says  string
	}{
		{"0 9 * * *;", "schedule", 10, "semicolon"},
		{"; 0 9 * * *", "schedule", 0, "semicolon"},
		{"@daily; ; @hourly", "schedule", 8, "semicolon"},
		{";", "schedule", 0, "semicolon"},
		{"0 9 * * *; 0 61 * * *", "hour", 13, "61"},
		{"0 9 * * *; TZ=Mars/Base 0 9 * * *", "time zone", 14, "Mars/Base"},
		{"@daily;R4/PT3S", "repeat", 7, "R4/2026"},
		{"0 0 30 2 *; @daily", "day of month", 4, "never fires"},
		{strings.Repeat("@daily;", schedule.MaxSet) + "@hourly", "schedule", 7 * schedule.MaxSet, "16"},
	} {
		_, err := schedule.Parse(c.text, schedule.Options{})
		e, ok := errors.AsType[*schedule.Error](err)
		if !ok || e.Field != c.field || e.Pos != c.pos || e.Expr != c.text || !strings.Contains(e.Msg, c.says) {
			t.Errorf("%q: %v, want %s at %d: %s", c.text, err, c.field, c.pos, c.says)
		}
	}
	if _, err := schedule.Parse(strings.Repeat("@daily;", schedule.MaxSet-1)+"@hourly", schedule.Options{}); err != nil {
		t.Error(err)
	}
}

func TestSetAsAWhole(t *testing.T) {
	const text = "0 9 * * MON-FRI; R3/2026-12-01T00:00:00Z/P1D;@every 90s/30s"
	s := parsed(t, text, schedule.Options{})
	start, started := s.Start()
	_, limited := s.Repeats()
	if s.String() != text || s.Anchored() || s.Period() != 0 || limited || !started ||
		!start.Equal(at(t, "2026-12-01T00:00:00Z")) {
		t.Errorf("%v, anchored %v, period %v, limited %v, start %v", s, s.Anchored(), s.Period(), limited, start)
	}
	if m := s.Members(); len(m) != 3 || m[2].String() != "@every 90s/30s" || m[2].Members()[0] != m[2] {
		t.Errorf("members %v", m)
	}
	s = parsed(t, "0 0 13 * FRI; */70 * * * *; @daily", schedule.Options{})
	if w := s.Warnings(); len(w) != 2 || !strings.HasPrefix(w[0], "0 0 13 * FRI: day of month") ||
		!strings.HasPrefix(w[1], "*/70 * * * *: minute") {
		t.Errorf("warnings %q", w)
	}
	allocs := testing.AllocsPerRun(100, func() { s.Next(start, start); s.Count(start, start.Add(time.Hour), start, 5) })
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
