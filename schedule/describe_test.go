package schedule_test

import (
	"strings"
	"testing"

	"github.com/carillonhq/carillon/schedule"
)

func TestDescribe(t *testing.T) {
	for expr, want := range map[string]string{
		"0 2 * * *":                     "at 02:00",
		"30 0 2,14 * * MON-FRI":         "at 02:00:30 and 14:00:30 on Monday to Friday",
		"* * * * *":                     "every minute",
		"* * * * * *":                   "every second",
		"*/5 * * * *":                   "every 5 minutes",
		"3/5 * * * *":                   "every 5 minutes from minute 3 on",
		"*/25 * * * *":                  "at minutes 0, 25 and 50",
		"7 * * * *":                     "at minute 7 of every hour",
		"*/15 9-17 * * MON,WED":         "every 15 minutes from 09:00 to 17:59 on Monday and Wednesday",
		"0 */2 * * *":                   "at minute 0 of every 2 hours",
		"*/10 * * * * *":                "every 10 seconds",
		"*/10 5 * * * *":                "every 10 seconds of minute 5 of every hour",
		"0 0 13 * FRI":                  "at 00:00 on day 13 of the month and also on Friday",
		"0 0 13 * +FRI":                 "at 00:00 on day 13 of the month, if it is Friday",
		"0 0 1,15 JAN-MAR *":            "at 00:00 on days 1 and 15 of the month in January to March",
		"0 0 L * ?":                     "at 00:00 on the last day of the month",
		"0 0 LW * ?":                    "at 00:00 on the last weekday of the month",
		"0 0 ? * 1#2":                   "at 00:00 on the 2nd Monday of the month",
		"0 0 ? * 5L":                    "at 00:00 on the last Friday of the month",
		"0 0 0 1 1 ? 2030":              "at 00:00 on day 1 of the month in January in 2030",
		"@daily":                        "at 00:00",
		"@every 90m":                    "every 1h30m, from its first run on",
		"@every 1h/5m":                  "every 1h, counted from 00:05 UTC",
		"@every 1h/0s":                  "every 1h, counted from 00:00 UTC",
		"@every 8h/1h0m2.5s":            "every 8h, counted from 01:00:02.5 UTC",
		"@every 7h/90m":                 "every 7h, counted from 1970-01-01T01:30:00Z",
		"@every 48h/25h":                "every 48h, counted from 1970-01-02T01:00:00Z",
		"R4/PT15M":                      "every 15m, 4 times, from its first run on",
		"R/2027-01-01T00:00:00Z/P1M":    "every P1M, from 2027-01-01T00:00:00Z on",
		"TZ=Europe/Paris 0 9 * * *":     "at 09:00, in Europe/Paris",
		"0 9 * * MON-FRI; 0 12 * * SAT": "at 09:00 on Monday to Friday; and at 12:00 on Saturday",
	} {
		if got := parsed(t, expr, schedule.Options{}).Describe(); got != want {
			t.Errorf("%q: %q, want %q", expr, got, want)
		}
	}
}

func TestHints(t *testing.T) {
	for expr, want := range map[string]string{
		"*/15 */6 * * *": "", "@every 7m": "", "0 0-10/3 * * *": "",
		"*/25 * * * *": "minute: */25 begins again", "0 */5 * * *": "hour: */5 begins again",
		"0 0 */2 * *": "day of month: */2 begins again", "0 0 13 * FRI": "either is enough",
		"@daily; */7 * * * *": "minute: */7 begins again", "TZ=UTC */7 * * * * *": "second: */7 begins again",
	} {
		got := strings.Join(parsed(t, expr, schedule.Options{}).Hints(), "\n")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", expr, got, want)
		}
	}
}
