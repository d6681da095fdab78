//go:build unix

package page_test

import (
	"io/fs"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/internal/server"
)

// TestWordsOfSchedules: they say what the schedule does, without rounding, or nothing at all.
func TestWordsOfSchedules(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	p := b.open(t, n.url, 1200, 900)
	p.visit("/schedule?schedule=" + url.QueryEscape("@yearly"))
	for schedule, want := range map[string]string{
		"@every 1s": "Every second", "@every 60s": "Every minute", "@every 1h": "Every hour",
		"@every 90s": "Every 1 min 30 s", "@every 90m": "Every 1 h 30 min", "@every 3601s": "Every 1 h 1 s",
		"@every 59m59s": "Every 59 min 59 s", "@every 1500ms": "Every 1 s 500 ms", "@every 1ms": "Every 1 ms",
		"@every 24h": "Every 24 h", "@every 49h30m": "Every 49 h 30 min", "@every 240h1s": "Every 240 h 1 s",
		"@every 1m0.0005s": "Every 1 min 0.5 ms",
		"@every 1h/90s":    "Every hour, 1 min 30 s after whole multiples",
		"R/P1D":            "Every day", "R4/PT15M": "Every 15 minutes, 4 times", "R1/P1Y2M": "Every 1 year 2 months, 1 time",
		"R/2026-01-01T00:00:00Z/P1W": "Every week, from 2026-01-01T00:00:00Z", "R/PT1.5S": "",
		"@daily": "Every day at 00:00", "@hourly": "Every hour, at minute 0", "@weekly": "Every Sunday at 00:00",
		"30 2 * * *": "Every day at 02:30", "0 30 2 * * *": "Every day at 02:30", "15 30 2 * * *": "Every day at 02:30:15",
		"0 9,17 * * MON-FRI": "Every Monday to Friday at 09:00 and 17:00", "5 * * * *": "At minute 5 of every hour",
		"30 * * * * *": "At second 30 of every minute", "*/7 * * * *": "Every 7 minutes of each hour",
		"*/15 9-17 * * *": "Every 15 minutes, every hour, from 09:00 to 17:59", "0 0 LW * *": "On the last weekday of every month at 00:00",
		"0 0 L-1 * *": "1 day before the last day of every month at 00:00", "0 0 13 * FRI": "On day 13 of every month, and every Friday at 00:00",
		"0 0 13 * +FRI": "On day 13 of every month if it is Friday at 00:00", "0 0 * * MON#2": "On the second Monday at 00:00",
		"0 0 1 1,7 *": "On day 1 of January and July at 00:00", "0 0 * */5 *": "",
		"0 0 1 JAN MON": "On day 1 of January, and every Monday in January at 00:00", "0 0 * 6-8 SAT": "Every Saturday in June to August at 00:00",
		"0 9 * * MON-FRI; @every 90s": "Every Monday to Friday at 09:00; and every 1 min 30 s",
		"TZ=Asia/Tokyo 0 9 * * *":     "Every day at 09:00, in Asia/Tokyo",
	} {
		p.fill("Schedule", schedule)
		p.wait(`document.querySelector(".times tbody tr") && !document.querySelector("main .trouble") &&
  new URLSearchParams(location.search).get("schedule") === ` + js(schedule) + ` &&
  (document.querySelector(".words")?.textContent ?? "") === ` + js(inZone(schedule, want)))
	}
}

// inZone is what the page says of a schedule: words with the zone that is meant, but of what has none, or another.
func inZone(schedule, words string) string {
	if words == "" || regexp.MustCompile(`^(@every|R\d*/PT|TZ=)`).MatchString(schedule) && !strings.Contains(schedule, ";") {
		return words
	}
	return words + ", UTC"
}

// TestChangesOfClocks: they are as large as they are, which is not an hour everywhere.
func TestChangesOfClocks(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	p := b.open(t, n.url, 1200, 900)
	for _, c := range []struct{ zone, from, want string }{
		{"Europe/Berlin", "2027-03-26T00:00:00Z", "Clocks go forward 1 h, UTC+01:00 to UTC+02:00: 02:00 to 03:00 does not exist on that day"},
		{"Australia/Lord_Howe", "2027-10-01T00:00:00Z", "Clocks go forward 30 min, UTC+10:30 to UTC+11:00: 02:00 to 02:30 does not exist on that day"},
		{"Australia/Lord_Howe", "2027-04-01T00:00:00Z", "Clocks go back 30 min, UTC+11:00 to UTC+10:30: 01:30 to 02:00 comes twice on that day"},
	} {
		p.visit("/schedule?" + url.Values{"schedule": {"30 1 * * *"}, "zone": {c.zone}, "from": {c.from}}.Encode())
		p.sees("tr.change", c.want)
	}
}

// commandShown is a command in the source of the page, to the end of the text that it is in.
var commandShown = regexp.MustCompile("carillon ([a-z][^\"`<>]*)")

// TestCommandsShownExist: each command that the page shows is in the reference, with the flags that it is given.
func TestCommandsShownExist(t *testing.T) {
	reference, err := os.ReadFile("../../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, section := range regexp.MustCompile(`(?m)^#{2,4} `).Split(string(reference), -1)[1:] {
		title, text, _ := strings.Cut(section, "\n")
		sections[title] = text
	}
	found := 0
	err = fs.WalkDir(os.DirFS("web/src"), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile("web/src/" + path)
		if err != nil {
			return err
		}
		for _, m := range commandShown.FindAllStringSubmatch(string(text), -1) {
			found++
			words := strings.Fields(m[1])
			section, ok := sections["carillon "+words[0]]
			if len(words) > 1 && sections["carillon "+words[0]+" "+words[1]] != "" {
				section = sections["carillon "+words[0]+" "+words[1]]
			} else if ok && !strings.Contains(section, "| takes |") {
				ok = false // a group of commands
			}
			if !ok {
				t.Errorf("%s: there is no command %q", path, m[0])
			}
			for _, word := range words {
				if flag, _, _ := strings.Cut(word, "="); strings.HasPrefix(flag, "--") && flag != "--" && !strings.Contains(section, "`"+flag+"`") {
					t.Errorf("%s: %q has no flag %s", path, m[0], flag)
				}
			}
		}
		return nil
	})
	if err != nil || found < 10 {
		t.Errorf("%d commands were found: %v", found, err)
	}
}
