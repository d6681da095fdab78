package chaos_test

import (
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/chaos"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// at is a moment of the histories below.
func at(ms int) time.Time { return noon.Add(time.Duration(ms) * time.Millisecond) }

// good is a history of a job that was put, ran, failed, ran again and succeeded.
func good() checker.History {
	spec := &checker.Job{Lease: 2 * time.Second}
	return checker.History{
		Start: at(0), Healed: at(9000), End: at(10_000),
		Ops: []checker.Op{
			{Kind: checker.Put, Job: "client-0/1", Invoke: at(0), Return: at(5), Outcome: checker.OK, Spec: spec},
			{Kind: checker.Trigger, Job: "recurring/1", Invoke: at(10), Return: at(20), Outcome: checker.OK,
				Answer: checker.Answer{RunID: "T"}},
		},
		Attempts: []checker.Attempt{
			{RunID: "R", Job: "client-0/1", Scheduled: at(2000), Number: 1, Token: "a", Worker: "w", At: at(2001)},
			{RunID: "R", Job: "client-0/1", Scheduled: at(2000), Number: 2, Token: "b", Worker: "w", At: at(2300)},
		},
		Results: []checker.Result{
			{RunID: "R", Token: "a", Number: 1, Kind: checker.Failure, Sent: at(2010), Told: at(2015),
				Verdict: checker.Acked},
			{RunID: "R", Token: "b", Number: 2, Kind: checker.Success, Sent: at(2310), Told: at(2320),
				Verdict: checker.Acked},
			{RunID: "R", Token: "x", Number: 2, Kind: checker.Fabricated, Sent: at(2305), Told: at(2306),
				Verdict: checker.Stale},
		},
		Final: checker.Final{Whole: true, Runs: []checker.FinalRun{
			{RunID: "R", Job: "client-0/1", Status: "succeeded", Attempt: 2}, {RunID: "T", Job: "recurring/1",
				Status: "cancelled"},
		}},
	}
}

// TestSuspicions breaks a good history in one place at a time.
func TestSuspicions(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(h *checker.History)
		want  string // how the one finding begins; "" = none
	}{
		"good":     {func(*checker.History) {}, ""},
		"early":    {func(h *checker.History) { h.Attempts[0].At = at(1999) }, "early: attempt 1"},
		"no cause": {func(h *checker.History) { h.Results = h.Results[1:] }, "again: attempt 2"},
		"lease":    {func(h *checker.History) { h.Results = h.Results[1:]; later(h, 2100) }, ""},
		"killed":   {func(h *checker.History) { h.Results = h.Results[1:]; fault(h) }, ""},
		"killed later": {func(h *checker.History) {
			h.Results = h.Results[1:]
			fault(h)
			h.Faults[0].From = at(3000)
		}, "again: attempt 2"},
		"another worker cut off": {func(h *checker.History) {
			h.Results = h.Results[1:]
			fault(h)
			h.Faults[0].Targets = []string{"v"}
		}, "again: attempt 2"},
		"edited":                      {func(h *checker.History) { h.Results = h.Results[1:]; edit(h) }, ""},
		"after success":               {func(h *checker.History) { again(h, 5000) }, "done is done: attempt 3"},
		"in doubt, handed out before": {func(h *checker.History) { crossing(h, "b", 2319) }, ""},
		"in doubt, handed out after": {func(h *checker.History) { crossing(h, "b", 2321) },
			"done is done: attempt 3"},
		"another, handed out before": {func(h *checker.History) { crossing(h, "c", 2319) },
			"done is done: attempt 3"},
		"two successes": {func(h *checker.History) { h.Results[0].Kind = checker.Success; h.Attempts = nil },
			"twice: "},
		"forged":       {func(h *checker.History) { h.Results[2].Verdict = checker.Acked }, "forged: "},
		"success lost": {func(h *checker.History) { h.Final.Runs[0].Status = "dead" }, "lost: the success of R"},
		"success unheard": {func(h *checker.History) { h.Results[1].Verdict = ""; h.Final.Runs[0].Status = "dead" },
			""},
		"put lost": {func(h *checker.History) {
			h.Attempts, h.Results, h.Final.Runs = nil,
				nil, h.Final.Runs[1:]
		}, "lost: the put of client-0/1"},
		"put unknown": {func(h *checker.History) {
			h.Attempts, h.Results, h.Final.Runs = nil, nil, h.Final.Runs[1:]
			h.Ops[0].Outcome = checker.Info
		}, ""},
		"ghost": {func(h *checker.History) { h.Ops[0].Outcome = checker.Fail },
			"ghost: the put of client-0/1"},
		"trigger lost": {func(h *checker.History) { h.Final.Runs = h.Final.Runs[:1] },
			"lost: recurring/1 was triggered"},
		"left behind": {func(h *checker.History) { h.Final.Left = []string{"a credit"} }, "left behind: a credit"},
	} {
		t.Run(name, func(t *testing.T) {
			h := good()
			c.spoil(&h)
			found := chaos.Suspicions(&h)
			switch {
			case c.want == "" && len(found) > 0:
				t.Errorf("found %q in a good history", found)
			case c.want != "" && (len(found) != 1 || !strings.HasPrefix(found[0], c.want)):
				t.Errorf("found %q, want %q", found, c.want)
			}
		})
	}
}

// later moves what follows the first attempt.
func later(h *checker.History, ms int) {
	d := time.Duration(ms) * time.Millisecond
	h.Attempts[1].At = h.Attempts[1].At.Add(d)
	h.Results[0].Sent, h.Results[0].Told = h.Results[0].Sent.Add(d), h.Results[0].Told.Add(d)
}

func fault(h *checker.History) {
	h.Faults = []checker.Fault{{Kind: "kill", From: at(2100), To: at(2200)}}
}

func edit(h *checker.History) {
	h.Ops = append(h.Ops, checker.Op{Kind: checker.Put, Job: "client-0/1", Spec: h.Ops[0].Spec,
		Invoke: at(2050), Return: at(2060), Outcome: checker.OK})
}

func again(h *checker.History, ms int) {
	h.Attempts = append(h.Attempts, checker.Attempt{RunID: "R", Job: "client-0/1", Scheduled: at(2000),
		Number: 3, Token: "c", Worker: "w", At: at(ms)})
}

// crossing adds an attempt that comes just after the success of another, in the time of a fault.
func crossing(h *checker.History, token string, started int) {
	again(h, 2322)
	h.Attempts[2].Token, h.Attempts[2].Started = token, at(started)
	fault(h)
	h.Faults[0].From, h.Faults[0].To = at(2315), at(2330)
}
