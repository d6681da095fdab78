package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestEveryPeerDoesTheWork has every peer that is on this machine do all measures at a tiny size.
func TestEveryPeerDoesTheWork(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts servers")
	}
	binary := filepath.Join(t.TempDir(), "carillon")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-C", "../..", "-o", binary,
		"./server/cmd/carillon").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, c := range contestants(binary) {
		t.Run(c.peer+" "+c.settings, func(t *testing.T) {
			t.Parallel() // nothing depends on how long it takes
			s := allSizes["tiny"]
			var rows []row
			err := measured(t.Context(), &c, s, (*bout).run, func(r row) { rows = append(rows, r) })
			if isAbsent(err) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(rows) < 4 {
				t.Errorf("%d measures", len(rows))
			}
			for _, r := range rows {
				v := r.Ledger
				if v.Early = 0; v != (verdict{Expected: v.Expected, Done: v.Expected}) ||
					v.Expected != int64(r.Operations) {
					t.Errorf("%s", r.String()) // early is what Asynq is: it knows whole seconds only
				}
			}
		})
	}
}

func TestWhatIsNotThereIsLeftOut(t *testing.T) {
	who := []contestant{{peer: "Nobody", settings: "default", start: func(context.Context) (subject, string, error) {
		return nil, "", absent{"there is no server"}
	}}}
	var errs bytes.Buffer
	took, rows, err := compete(t.Context(), who, allSizes["tiny"], (*bout).run, &errs)
	if err != nil || len(took) != 0 || len(rows) != 0 ||
		errs.String() != "Nobody, default is left out: there is no server\n" {
		t.Errorf("%v %v %v: %s", took, rows, err, &errs)
	}
}

func TestLedger(t *testing.T) {
	l := newLedger(10, 4)
	now := time.Now()
	for i, due := range []time.Time{now.Add(-time.Minute), now.Add(-time.Second), now.Add(time.Hour), now} {
		l.plan(job{n: 10 + i, due: due})
	}
	for _, n := range []int{9, 10, 11, 11, 12, 14} {
		l.enter(n)
	}
	if v, want := l.verdict(2), (verdict{Expected: 4, Done: 3, Missing: 1, Doubled: 1, Early: 1,
		Left: 2}); v != want {
		t.Errorf("%+v, not %+v", v, want)
	}
	if q := l.lateness(); q.P50 < 1_000 || q.Max < 60_000 {
		t.Errorf("lateness %+v", q)
	}
	l.enter(13)
	<-l.all
}

func TestStatOfAProcess(t *testing.T) {
	p, ok := parseStat([]byte("42 (a ) name) S 7 42 42 0 -1 4194560 9 9 9 9 100 20 3 4 20 0 1 0 5 6 7\n"))
	if want := (process{pid: 42, parent: 7, used: 127 * clockTick,
		resident: 7 * int64(os.Getpagesize())}); !ok || p != want {
		t.Errorf("%+v, %v", p, ok)
	}
	for _, bad := range []string{"", "x (y) S 7", "42 (y) S 7 1"} {
		if _, ok := parseStat([]byte(bad)); ok {
			t.Errorf("%q was understood", bad)
		}
	}
}

func TestRowsAsJSON(t *testing.T) {
	var out bytes.Buffer
	if err := printJSON(&out, []row{{Peer: "Carillon", Measure: "put", Rate: 5}}); err != nil {
		t.Fatal(err)
	}
	var back []row
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || len(back) != 1 || back[0].Rate != 5 {
		t.Errorf("%v: %s", err, &out)
	}
}
