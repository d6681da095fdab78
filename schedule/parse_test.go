package schedule_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/schedule"
)

func TestParseErrors(t *testing.T) {
	for _, c := range []struct {
		expr, field string
		pos         int
		msg         string // part of the message
	}{
		{"", "schedule", 0, "empty"},
		{"  \t", "schedule", 3, "empty"},
		{"* * * *", "schedule", 0, "4 fields; want 5"},
		{"* * * * * * * *", "schedule", 0, "8 fields"},
		{"TZ=UTC", "schedule", 6, "time zone alone"},
		{"CRON_TZ=Europe/Paris  ", "schedule", 20, "time zone alone"},
		{"TZ= * * * * *", "time zone", 3, "no name"},
		{"TZ=Mars/Base * * * * *", "time zone", 3, `"Mars/Base" is unknown`},
		{"TZ=Local * * * * *", "time zone", 3, "node to node"},
		{"TZ=../etc/passwd * * * * *", "time zone", 3, "unknown"},

		{"0 61 * * * *", "minute", 2, "61 is out of range 0-59"},
		{"61 * * * *", "minute", 0, "61 is out of range 0-59"},
		{"60 * * * * *", "second", 0, "60 is out of range 0-59"},
		{"0 0 24 * * *", "hour", 4, "24 is out of range 0-23"},
		{"0 0 0 0 * *", "day of month", 6, "0 is out of range 1-31"},
		{"0 0 0 32 * *", "day of month", 6, "32 is out of range 1-31"},
		{"0 0 0 * 13 *", "month", 8, "13 is out of range 1-12"},
		{"0 0 0 * 0 *", "month", 8, "0 is out of range 1-12"},
		{"0 0 0 * * 8", "day of week", 10, "8 is out of range 0-7"},
		{"0 0 0 * * * 1969", "year", 12, "1969 is out of range 1970-2199"},
		{"0 0 0 * * * 99999999999999999999999", "year", 12, "out of range 1970-2199"},
		{"  0 0 0 * * * 2200", "year", 14, "2200 is out of range 1970-2199"},
		{"0 0 0 * * * 2030-2020", "year", 12, "runs backwards; write 2020-2030"},

		{"1,,2 * * * *", "minute", 2, "item of the list is missing"},
		{",1 * * * *", "minute", 0, "item of the list is missing"},
		{"1, * * * *", "minute", 2, "item of the list is missing"},
		{"5,61 * * * *", "minute", 2, "61 is out of range"},
		{"1-61 * * * *", "minute", 2, "61 is out of range"},
		{"1- * * * *", "minute", 2, "a value is missing"},
		{"-5 * * * *", "minute", 0, "a value is missing"},
		{"1-2-3 * * * *", "minute", 2, `"2-3" is not a number`},
		{"*/0 * * * *", "minute", 2, "a step of 0 never moves on"},
		{"*/ * * * *", "minute", 2, "not a step"},
		{"*/-1 * * * *", "minute", 2, "not a step"},
		{"*/x * * * *", "minute", 2, "not a step"},
		{"*/2/3 * * * *", "minute", 2, "not a step"},
		{"? * * * *", "minute", 0, "only in the day fields"},
		{"every weekday at nine", "schedule", 0, `"every" begins no schedule; write a cron such as`},
		{"TZ=UTC daily", "schedule", 7, `"daily" begins no schedule`},
		{"** * * * *", "minute", 0, "not a number"},
		{"*-5 * * * *", "minute", 0, "not a number"},
		{"+5 * * * *", "minute", 0, "not a number"},
		{"1.5 * * * *", "minute", 0, "not a number"},
		{"١ * * * *", "minute", 0, "not a number"},
		{"0 0 * FOO *", "month", 6, `"FOO" is not a number 1-12 or a name JAN-DEC`},
		{"0 0 * JANUARY *", "month", 6, "JAN-DEC"},
		{"0 0 * * FUN", "day of week", 8, "SUN-SAT"},
		{"0 0 ?/2 * *", "day of month", 4, "stands alone"},
		{"0 0 1,? * *", "day of month", 6, "stands alone"},

		{"0 0 L-0 * *", "day of month", 6, "L-n takes 1-30"},
		{"0 0 L-31 * *", "day of month", 6, "L-n takes 1-30"},
		{"0 0 L-x * *", "day of month", 6, "L-n takes 1-30"},
		{"0 0 32W * *", "day of month", 4, "32 is out of range"},
		{"0 0 W * *", "day of month", 4, "a value is missing"},
		{"0 0 1-5W * *", "day of month", 4, "not a number"},
		{"0 0 * * L", "day of week", 8, "L needs a day"},
		{"0 0 * * 8L", "day of week", 8, "8 is out of range"},
		{"0 0 * * FRI#0", "day of week", 12, "after # is 1-5"},
		{"0 0 * * FRI#6", "day of week", 12, "after # is 1-5"},
		{"0 0 * * #2", "day of week", 8, "a value is missing"},
		{"0 0 * * 1#2#3", "day of week", 10, "after # is 1-5"},
		{"0 0 * * +", "day of week", 9, "item of the list is missing"},
		{"0 0 * * ++1", "day of week", 9, "not a number"},
		{"0 0 +1 * *", "day of month", 4, "not a number"},

		{"0 0 0 30 2 *", "day of month", 6, "never fires"},
		{"0 0 30 2 *", "day of month", 4, "never fires"},
		{"0 0 31 2,4 *", "day of month", 4, "never fires"},
		{"0 0 31 4,6,9,11 ?", "day of month", 4, "never fires"},
		{"0 0 0 29 2 * 2027", "year", 13, "none of these years"},
		{"0 0 0 29 2 ? 2097-2103", "year", 13, "none of these years"}, // 2100 is no leap year
		{"0 0 31W 2 *", "day of month", 4, "never fires"},
		{"0 0 L-29 2 *", "day of month", 4, "never fires"},
		{"0 0 LW * +SUN", "day of month", 4, "never fires"},
		{"0 0 1-7 * +MON#2", "day of month", 4, "never fires"},
		{"0 0 1 * +MON#5", "day of month", 4, "never fires"},
		{"0 0 0 ? 2 MON#5 2025-2027", "year", 16, "none of these years"},
		{"0 0 0 29 2 +SUN 2028", "year", 16, "none of these years"}, // a Tuesday

		{"@never", "schedule", 0, `"@never" is unknown`},
		{"@reboot", "schedule", 0, "unknown"},
		{"@", "schedule", 0, "unknown"},
		{"@daily x", "schedule", 7, "nothing may follow"},
		{"@every", "interval", 6, "a duration is missing"},
		{"TZ=UTC @every ", "interval", 13, "a duration is missing"},
		{"@every 5", "interval", 7, `"5" is not a duration`},
		{"@every 9999999h", "interval", 7, "9999999h is longer than the longest duration"},
		{"@every -5s", "interval", 7, "negative"},
		{"@every 0s", "interval", 7, "shorter than the shortest interval, 1ms"},
		{"@every 999us", "interval", 7, "shorter"},
		{"@every P1M", "interval", 7, "length varies"},
		{"@every PT", "interval", 9, "nothing follows the T"},
		{"@every 1h x", "interval", 10, "nothing may follow"},
		{"@every 1h/", "phase", 10, "a duration is missing"},
		{"@every 1h/1h", "phase", 10, "not below the interval"},
		{"@every 1h/-1m", "phase", 10, "negative"},
		{"@every 1h/1m/1s", "phase", 10, "not a duration"},

		{"rate(5 minutes)", "schedule", 0, "write for example @every 5m"},
		{"cron(0 12 * * ? *)", "schedule", 0, "write what is inside"},
		{"random", "schedule", 0, `"random" begins no schedule`},
		{"R", "period", 1, "missing"},
		{"R4", "period", 2, "missing"},
		{"R4/", "period", 3, "begins with P"},
		{"R0/PT1H", "repeat", 1, "0 runs"},
		{"R-1/PT1H", "repeat", 1, "not a number of runs"},
		{"R99999999999999999999/PT1H", "repeat", 1, "not a number of runs"},
		{"R4/PT0S", "period", 3, "zero"},
		{"R4/PT0.0001S", "period", 3, "shorter"},
		{"R4/P", "period", 3, "nothing follows the P"},
		{"R4/P1DT", "period", 7, "nothing follows the T"},
		{"R4/P1H", "period", 5, `"H" cannot stand here`},
		{"R4/PT1D", "period", 6, `"D" cannot stand here`},
		{"R4/P1M1Y", "period", 7, `"Y" cannot stand here`},
		{"R4/P1D1D", "period", 7, `"D" cannot stand here`},
		{"R4/PT1", "period", 5, "want a number and one of"},
		{"R4/PTS", "period", 5, "want a number and one of"},
		{"R4/-PT1S", "period", 3, "begins with P"},
		{"R4/PT-1S", "period", 5, "want a number and one of"},
		{"R4/P1.5D", "period", 4, "only hours, minutes and seconds"},
		{"R4/PT1.5H3M", "period", 9, "nothing may follow a part with a fraction"},
		{"R4/PT1.S", "period", 5, "decimals"},
		{"R4/PT.5S", "period", 5, "not a number"},
		{"R4/PT1.1234567891S", "period", 5, "decimals"},
		{"R4/P99999Y", "period", 4, "ten thousand years"},
		{"R4/PT9999999999H", "period", 5, "292 years"},
		{"R4/2026-01-01/PT1H", "start", 3, "RFC 3339"},
		{"R4/2026-13-01T00:00:00Z/PT1H", "start", 3, "RFC 3339"},
		{"R4/0000-01-01T00:00:00Z/PT1H", "start", 3, "years 1-9999"},
		{"R4//PT1H", "start", 3, "RFC 3339"},
		{"R4/2026-01-01T00:00:00Z/PT1H/x", "repeat", 29, "too many parts"},
		{"P1D", "schedule", 0, "put R/ before it"},
	} {
		_, err := schedule.Parse(c.expr, schedule.Options{})
		checkError(t, c.expr, err, c.field, c.pos, c.msg)
	}
}

// checkError holds an error against what it should say and where.
func checkError(t *testing.T, text string, err error, field string, pos int, msg string) {
	t.Helper()
	var e *schedule.Error
	if !errors.As(err, &e) {
		t.Errorf("%q: got %v, want an *Error about %s at %d", text, err, field, pos)
		return
	}
	if e.Expr != text || e.Field != field || e.Pos != pos || !strings.Contains(e.Msg, msg) {
		t.Errorf("%q: got %s at %d: %s\n\twant %s at %d: …%s… (Expr %q)", text, e.Field, e.Pos, e.Msg, field,
			pos, msg, e.Expr)
	}
}

func TestErrorText(t *testing.T) {
	_, err := schedule.Parse("0 61 * * * *", schedule.Options{})
	if got, want := err.Error(), "schedule: minute at position 2: 61 is out of range 0-59"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	_, err = schedule.Parse(strings.Repeat("x", 1<<16)+" * * * *", schedule.Options{})
	if got := len(err.Error()); got > 200 {
		t.Errorf("a message of %d bytes", got)
	}
}

// TestEquivalent holds different spellings of one schedule against each other.
func TestEquivalent(t *testing.T) {
	for _, pair := range [][2]string{
		{"5 4 * * *", "0 5 4 * * *"},
		{"0 0 13 * +*", "0 0 13 * *"},
		{"0 0 ? * +FRI", "0 0 * * FRI"},
		{"0 5 4 * * *", "0 5 4 * * * *"},
		{"0 5 4 ? * ?", "0 5 4 * * *"},
		{" 0\t5  4 * * *\n", "0 5 4 * * *"},
		{"0 0 * jan,Feb,MAR mon", "0 0 * 1-3 1"},
		{"0 0 * * 7", "0 0 * * 0"},
		{"0 0 * * SUN", "0 0 * * 0"},
		{"0 0 * * FRI-MON", "0 0 * * 5,6,0,1"},
		{"0 0 * * 5-7", "0 0 * * 5,6,0"},
		{"0 0 * * 0-7", "0 0 * * 0-6"},
		{"0 0 * * 7-2", "0 0 * * 0,1,2"},
		{"0 0 * * 6-0", "0 0 * * 6,0"},
		{"0 0 * * 7/2", "0 0 * * 0,2,4,6"},
		{"0 0 * * FRI-TUE/2", "0 0 * * 5,0,2"},
		{"0 22-2 * * *", "0 22,23,0,1,2 * * *"},
		{"0 22-2/2 * * *", "0 22,0,2 * * *"},
		{"50-10/10 * * * *", "50,0,10 * * * *"},
		{"0 0 28-3 * ?", "0 0 28,29,30,31,1,2,3 * ?"},
		{"0 0 1 NOV-FEB ?", "0 0 1 11,12,1,2 ?"},
		{"*/20 * * * *", "0,20,40 * * * *"},
		{"10/20 * * * *", "10,30,50 * * * *"},
		{"10-40/20 * * * *", "10,30 * * * *"},
		{"0 0 20/5 * ?", "0 0 20,25,30 * ?"},
		{"*/60 * * * *", "0-0/1 * * * *"},
		{"*/61 * * * *", "0 * * * *"},
		{"5-30/99999999999999999999 * * * *", "5 * * * *"},
		{"0 0 * * */20", "0 0 * * SUN"},
		{"0 0 * * 3-2/20", "0 0 * * 3"},
		{"0 0 */40 * ?", "0 0 1 * ?"},
		{"0 0 * * FRIL", "0 0 * * 5l"},
		{"0 0 * * 7L", "0 0 * * SunL"},
		{"0 0 * * FRI#2", "0 0 * * 5#2"},
		{"0 0 lw * *", "0 0 LW * *"},
		{"0 0 15w * *", "0 0 15W * *"},
		{"@yearly", "0 0 1 1 *"},
		{"@annually", "0 0 1 1 *"},
		{"@monthly", "0 0 1 * *"},
		{"@weekly", "0 0 * * 0"},
		{"@daily", "0 0 * * *"},
		{"@Midnight", "0 0 * * *"},
		{"@hourly", "0 * * * *"},
		{"TZ=Europe/Paris 0 9 * * *", "CRON_TZ=Europe/Paris 0 9 * * *"},
		{"TZ=Asia/Tokyo @daily", "TZ=Asia/Tokyo 0 0 * * *"},
		{"@every 1h30m", "@every PT1H30M"},
		{"@every 36h", "@every P1DT12H"},
		{"@every 168h", "@EVERY P1W"},
		{"@every 1h/19m", "@every PT60M/PT19M"},
		{"R/PT1.5S", "R/PT1,5S"},
		{"R/PT0.5H", "R/PT30M"},
		{"R/P1Y", "R/P12M"},
		{"r/P1W", "R/P7D"},
	} {
		a, b := parsed(t, pair[0], schedule.Options{}), parsed(t, pair[1], schedule.Options{})
		anchor := at(t, "2026-01-31T10:11:12Z")
		for after, i := anchor.Add(-time.Hour), 0; i < 50; i++ {
			x, okX := a.Next(after, anchor)
			y, okY := b.Next(after, anchor)
			if !x.Equal(y) || !okX || !okY {
				t.Errorf("%q gives %v (%v), %q gives %v (%v)", pair[0], x, okX, pair[1], y, okY)
				break
			}
			after = x
		}
	}
}

func TestAccessors(t *testing.T) {
	for _, c := range []struct {
		expr     string
		runs     uint64
		start    string
		anchored bool
		period   time.Duration
	}{
		{"0 0 * * *", 0, "", false, 0},
		{"@daily", 0, "", false, 0},
		{" @every 90s", 0, "", true, 90 * time.Second},
		{"@every 1h/19m", 0, "", false, time.Hour},
		{"R4/PT3S", 4, "", true, 3 * time.Second},
		{"R/PT1H", 0, "", true, time.Hour},
		{"R4/2026-01-01T01:00:00+01:00/PT15M", 4, "2026-01-01T00:00:00Z", false, 15 * time.Minute},
		{"R/2026-01-31T09:00:00Z/P1M", 0, "2026-01-31T09:00:00Z", false, 0},
		{"R18446744073709551615/P1D", 18446744073709551615, "", true, 0},
	} {
		s := parsed(t, c.expr, schedule.Options{})
		runs, limited := s.Repeats()
		start, started := s.Start()
		if s.String() != c.expr || runs != c.runs || limited != (c.runs > 0) || s.Anchored() != c.anchored ||
			s.Period() != c.period {
			t.Errorf("%q: %q, runs %d %v, anchored %v, period %v", c.expr, s, runs, limited, s.Anchored(), s.Period())
		}
		if started != (c.start != "") || (started && start != at(t, c.start)) {
			t.Errorf("%q: start %v %v", c.expr, start, started)
		}
	}
}
