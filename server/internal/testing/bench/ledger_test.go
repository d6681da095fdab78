package bench

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

var due = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// filled is a ledger of n jobs that are all due at the same time and acknowledged.
func filled(n int) *ledger {
	l := newLedger("p/", n)
	for i := range n {
		l.plan(i, due)
		l.ack(i)
	}
	return l
}

func TestLedger(t *testing.T) {
	for name, c := range map[string]struct {
		feed func(l *ledger)
		want Verdict
	}{
		"clean":   {func(*ledger) {}, Verdict{Expected: 3, Delivered: 3}},
		"doubled": {func(l *ledger) { l.deliver("p/1", due) }, Verdict{Expected: 3, Delivered: 3, Doubled: 1}},
		"unknown": {func(l *ledger) { l.deliver("q/1", due); l.deliver("p/3", due); l.deliver("p/x", due) },
			Verdict{Expected: 3, Delivered: 3, Unknown: 3}},
	} {
		l := filled(3)
		for i := range 3 {
			l.deliver(l.name(i), due.Add(time.Millisecond))
		}
		c.feed(l)
		if got := *l.verdict(); got != c.want || got.Clean() != (name == "clean") {
			t.Errorf("%s: verdict %+v, want %+v", name, got, c.want)
		}
	}
}

func TestLedgerMissingAndEarly(t *testing.T) {
	l := filled(3)
	l.deliver("p/0", due.Add(-time.Nanosecond))
	l.deliver("p/1", due)
	if got, want := *l.verdict(), (Verdict{Expected: 3, Delivered: 2, Missing: 1, Early: 1}); got != want ||
		got.Clean() {
		t.Errorf("verdict %+v, want %+v", got, want)
	}
}

// A put that was never acknowledged may fire or not: nobody was promised anything.
func TestLedgerUnacknowledged(t *testing.T) {
	l := newLedger("p/", 2)
	l.plan(0, due)
	l.plan(1, due)
	l.deliver("p/1", due)
	if got := l.verdict(); !got.Clean() || got.Expected != 0 {
		t.Errorf("verdict %+v", got)
	}
}

func TestLedgerIsDone(t *testing.T) {
	l := filled(2)
	l.deliver("p/0", due.Add(time.Second))
	select {
	case <-l.done:
		t.Fatal("done after one of two")
	default:
	}
	l.deliver("p/1", due.Add(3*time.Second))
	<-l.done
	if l.span() != 2*time.Second {
		t.Errorf("span %v", l.span())
	}
}

func TestTicks(t *testing.T) {
	const period = time.Second
	tick := func(job string, k int) *carillon.Run {
		return &carillon.Run{Job: job, Scheduled: due.Add(time.Duration(k) * period)}
	}
	for name, c := range map[string]struct {
		runs []*carillon.Run
		want Verdict
	}{
		"clean": {[]*carillon.Run{tick("p/0", 0), tick("p/0", 1), tick("p/0", 2)},
			Verdict{Expected: 3, Delivered: 3}},
		"gap": {[]*carillon.Run{tick("p/0", 0), tick("p/0", 2)}, Verdict{Expected: 3, Delivered: 2, Missing: 1}},
		"end": {[]*carillon.Run{tick("p/0", 0), tick("p/0", 1)}, Verdict{Expected: 3, Delivered: 2, Missing: 1}},
		"again": {[]*carillon.Run{tick("p/0", 0), tick("p/0", 1), tick("p/0", 1), tick("p/0", 2)},
			Verdict{Expected: 3, Delivered: 4, Doubled: 1}},
		"not a tick": {[]*carillon.Run{tick("p/0", 0), tick("p/0", 1), tick("p/0", 2),
			{Job: "p/0", Scheduled: due.Add(1)}}, Verdict{Expected: 3, Delivered: 4, Unknown: 1}},
		"another job": {[]*carillon.Run{tick("p/0", 0), tick("p/0", 1), tick("p/0", 2), tick("p/7", 0)},
			Verdict{Expected: 3, Delivered: 4, Unknown: 1}},
	} {
		l := newTicks("p/", 1, period, due)
		for _, r := range c.runs {
			l.receive(r, r.Scheduled)
		}
		if got := *l.verdict(due.Add(2 * period)); got != c.want || got.Clean() != (name == "clean") {
			t.Errorf("%s: verdict %+v, want %+v", name, got, c.want)
		}
	}
}

func TestTicksEarly(t *testing.T) {
	l := newTicks("p/", 1, time.Second, due)
	l.receive(&carillon.Run{Job: "p/0", Scheduled: due}, due.Add(-time.Millisecond))
	if got := l.verdict(due); got.Early != 1 || got.Clean() {
		t.Errorf("verdict %+v", got)
	}
}

func TestParseCPU(t *testing.T) {
	stat := "4711 (a (strange) name) S 1 4711 4711 0 -1 4194560 1 2 3 4 250 150 0 0 20 0 9 0 123 456 789"
	got, err := parseCPU([]byte(stat))
	if err != nil || got != 4*time.Second {
		t.Errorf("%v, %v; want 4s", got, err)
	}
	if _, err := parseCPU([]byte("4711 (short) S 1")); err == nil {
		t.Error("a short line was accepted")
	}
}

func TestQuantiles(t *testing.T) {
	h := newHistogram()
	if h.quantiles() != nil {
		t.Error("an empty histogram has quantiles")
	}
	for i := range 1000 {
		h.record(time.Duration(i+1) * time.Millisecond)
	}
	h.record(-time.Second, 100*time.Hour) // out of range: clamped
	q := h.quantiles()
	if q.P50 < 495 || q.P50 > 505 || q.P99 < 985 || q.P99 > 995 || q.Max < longest.Seconds()*999 {
		t.Errorf("quantiles %+v", q)
	}
}

func TestParseResident(t *testing.T) {
	status := "Name:\tRssFile:\nVmRSS:\t   76932 kB\nRssAnon:\t   13600 kB\nRssFile:\t   63332 kB\n"
	if all, files, err := parseResident(status); all != 76932<<10 || files != 63332<<10 || err != nil {
		t.Error(all, files, err)
	}
	if all, files, err := parseResident("VmRSS: 1 kB\n"); all != 1<<10 || files != 0 || err != nil {
		t.Error(all, files, err)
	}
	for _, bad := range []string{"", "RssFile: 1 kB\n", "VmRSS: 1 kB\nRssFile: x kB\n"} {
		if _, _, err := parseResident(bad); err == nil {
			t.Errorf("%q is no error", bad)
		}
	}
}
