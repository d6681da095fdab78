package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clipperhouse/displaywidth"
	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
)

// sameAsGolden compares a text with a file, or writes it there with -rewrite.
func sameAsGolden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s, got:\n%s\nwant:\n%s", name, text, want)
	}
}

// shownJobs are jobs of all kinds, seen at the beginning of a bubble.
func shownJobs() []carillon.Job {
	now := time.Now()
	return []carillon.Job{
		{Name: "報告/毎晩", Schedule: "0 0 2 * * *", TimeZone: "Asia/Tokyo",
			Target: carillon.Target{Worker: &carillon.WorkerTarget{Queue: "報告"}}, Labels: map[string]string{"チーム": "データ"},
			Status: &carillon.JobStatus{NextRun: now.Add(17 * time.Hour), Counters: carillon.Counters{Fired: 12},
				LastRun: &carillon.Run{Status: carillon.RunSucceeded}}},
		{Name: "fails", Schedule: "@every 5s",
			Target: carillon.Target{HTTP: &carillon.HTTPTarget{URL: "https://example.com/a/rather/long/path?with=query&and=more"}},
			Status: &carillon.JobStatus{Phase: carillon.PhaseRetrying, NextRun: now.Add(3 * time.Second),
				LastRun: &carillon.Run{Status: carillon.RunFailed}}},
		{Name: "evil\x1b]0;x\a\nname", Target: carillon.Target{Worker: &carillon.WorkerTarget{Queue: "\u202eq"}},
			Status: &carillon.JobStatus{Phase: carillon.PhaseStaged, Created: now.Add(-40 * 24 * time.Hour)}},
		{Name: "👩‍👩‍👧/é", Status: &carillon.JobStatus{Phase: carillon.PhasePaused}},
	}
}

func shownRuns() []carillon.Run {
	now := time.Now()
	return []carillon.Run{
		{ID: "04a", Job: "報告/毎晩", Status: carillon.RunRunning, Queue: "報告", Scheduled: now.Add(-time.Minute),
			Due: now.Add(-time.Minute), Started: now.Add(-30 * time.Second), Attempt: 1},
		{ID: "04b", Job: "fails", Status: carillon.RunRetrying, Queue: "example.com", Scheduled: now.Add(-time.Hour),
			Due: now.Add(9 * time.Minute), Attempt: 4,
			Errors: []carillon.AttemptError{{Message: "502 Bad Gateway: the upstream server\n has closed the connection early"}}},
		{ID: "04c", Job: "waits", Status: carillon.RunStaged, Queue: "nobody", Scheduled: now.Add(-2 * time.Hour), Due: now.Add(-2 * time.Hour)},
		{ID: "04d", Job: "dead", Status: carillon.RunDead, Queue: "q", Scheduled: now.Add(-50 * time.Hour), Started: now.Add(-49 * time.Hour),
			Finished: now.Add(-48 * time.Hour), Attempt: 5, Worker: "host-1", Errors: []carillon.AttemptError{{Message: "exit status 3"}}},
		{ID: "04e", Job: "dead", Status: carillon.RunSkipped, Reason: "paused", Scheduled: now.Add(-50 * time.Hour)},
	}
}

// TestTablesOnTerminals holds what people see of jobs and runs at 80 and at 200 columns, and in a pipe.
func TestTablesOnTerminals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, width := range []int{0, 80, 200} {
			for _, wide := range []bool{false, true} {
				text := jobColumns.grid(shownJobs()).render(wide, display{width: width}) + "\n" +
					runColumns.grid(shownRuns()).render(wide, display{width: width})
				name := fmt.Sprintf("tables-%d.txt", width)
				if wide {
					name = fmt.Sprintf("wide-%d.txt", width)
				}
				sameAsGolden(t, name, strings.ReplaceAll(text, time.Now().Location().String(), "Local"))
				for line := range strings.Lines(text) {
					if n := displaywidth.String(strings.TrimSuffix(line, "\n")); width > 0 && n > width && (!wide || width == 200) {
						t.Errorf("%s: a line has %d columns:\n%s", name, n, line)
					}
				}
			}
		}
		sameAsGolden(t, "colours.txt", jobColumns.grid(shownJobs()).render(false, display{width: 80, colour: true}))
	})
}

var colours = regexp.MustCompile("\x1b\\[[0-9]*m")

// TestNothingReachesTheTerminal of what others have written but characters that it shows.
func TestNothingReachesTheTerminal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := gridOf(nil, "A", "B", "C")
		for range rapid.IntRange(1, 5).Draw(t, "rows") {
			var row []gridCell
			for range 3 {
				row = append(row, gridCell{rapid.StringOf(rapid.OneOf(rapid.Rune(), rapid.RuneFrom([]rune("\x1b\a\n\t\u202e\u009b報")))).
					Draw(t, "text"), rapid.SampledFrom([]paint{plain, red}).Draw(t, "paint")})
			}
			g.rows = append(g.rows, row)
		}
		width := rapid.IntRange(40, 120).Draw(t, "width")
		text := colours.ReplaceAllString(g.render(true, display{width: width, colour: true}), "")
		if n := strings.Count(text, "\n"); n != 1+len(g.rows) {
			t.Fatalf("%d lines of %d rows", n, len(g.rows))
		}
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			if strings.ContainsFunc(line, func(r rune) bool { return isCommand(r) || r == '\t' }) {
				t.Fatalf("%q", line)
			}
			if displaywidth.String(line) > width {
				t.Fatalf("%d columns in %d: %q", displaywidth.String(line), width, line)
			}
		}
	})
}

// TestTopFitsTheTerminal whatever its size.
func TestTopFitsTheTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		m := topModel{server: "127.0.0.1:7070", namespace: "default", data: topData{at: now, problems: []string{"nodes: no\x1b answer"},
			queues: []carillon.Queue{{Namespace: "default", Kind: "worker", Name: "報告", Ready: 3, Staged: 4, Oldest: now.Add(-2 * time.Minute),
				Unserved: true}, {Namespace: "shop", Kind: "http", Name: "example.com", Consumers: 1, InFlight: 2}},
			failing: failingJobs(shownRuns()[1:4]), nodes: []carillon.Node{{ID: "a"}, {ID: "b"}}}}
		for width := 20; width <= 200; width += 20 {
			for height := 4; height <= 60; height += 8 {
				m.width, m.height = width, height
				text := m.render()
				if n := strings.Count(text, "\n") + 1; n > height {
					t.Errorf("%d lines at %dx%d", n, width, height)
				}
			}
		}
		for _, width := range []int{80, 200} {
			m.width, m.height = width, 24
			text := strings.ReplaceAll(m.render(), now.Local().Format("15:04:05"), "TIME")
			sameAsGolden(t, fmt.Sprintf("top-%d.txt", width), text)
		}
	})
}

// TestNoLineIsWiderThanTheTerminal: whatever the names, but where whole ones were asked for.
func TestNoLineIsWiderThanTheTerminal(t *testing.T) {
	now := time.Now()
	for _, long := range []string{strings.Repeat("reports/nightly-", 12), strings.Repeat("報告書/毎晩の集計-", 12), "a"} {
		jobs := append(shownJobs(), carillon.Job{Name: long, Schedule: "0 9 * * MON-FRI", TimeZone: "America/Argentina/Buenos_Aires",
			Target: carillon.Target{Worker: &carillon.WorkerTarget{Queue: long}}, Status: &carillon.JobStatus{NextRun: now}})
		runs := append(shownRuns(), carillon.Run{ID: "04", Job: long, Queue: long, Status: carillon.RunDead, Reason: long, Scheduled: now,
			Started: now, Finished: now, Attempt: 12})
		queues := []carillon.Queue{{Namespace: "default", Kind: "worker", Name: long, Ready: 123456, Limited: 123456, Staged: 123456,
			Oldest: now, Consumers: 12345, Silent: 12, Credits: 12345, InFlight: 12345, Unserved: true}}
		for _, width := range []int{60, 80, 200} {
			d := display{width: width, colour: true}
			m := topModel{server: long, namespace: "default", colour: true, width: width, height: 60, data: topData{at: now,
				queues: queues, failing: failingJobs(runs), problems: []string{long}, nodes: []carillon.Node{{ID: long}}}}
			for what, text := range map[string]string{"job list": jobColumns.grid(jobs).render(false, d),
				"run list": runColumns.grid(runs).render(false, d), "queue list": queueColumns.grid(queues).render(false, d), "top": m.render()} {
				for line := range strings.Lines(colours.ReplaceAllString(text, "")) {
					if w := displaywidth.String(strings.TrimSuffix(line, "\n")); w > width {
						t.Errorf("%s: a line of %d columns on %d: %s", what, w, width, line)
					}
				}
			}
		}
	}
	if whole := strings.Repeat("x", 300); !strings.Contains(jobColumns.grid([]carillon.Job{{Name: whole}}).render(true, display{width: 80}), whole) {
		t.Error("a name is shortened with -o wide")
	}
}

func TestWrapped(t *testing.T) {
	for text, want := range map[string]string{
		"phase     ready\n": "phase     ready\n",
		"hold      limit: one two three four\nphase  x\n": "hold      limit: one\n          two three\n          four\nphase  x\n",
		"one two three four five six\n":                   "one two three four\nfive six\n",
		"  yaml: that is as long as it may be\n":          "  yaml: that is as long as it may be\n",
		"name      " + strings.Repeat("報", 20):            "name      " + strings.Repeat("報", 20),
		"hold      " + strings.Repeat("報", 4) + " 告 毎晩 a": "hold      " + strings.Repeat("報", 4) + "\n          告 毎晩 a",
	} {
		if got := wrapped(text, 20); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if got := wrapped(text, 0); got != text {
			t.Errorf("%q is no terminal's: %q", text, got)
		}
	}
}
