package deliveries_test

import (
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/deliveries"
)

var begun = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func moment(seconds float64) time.Time {
	return begun.Add(time.Duration(seconds * float64(time.Second)))
}

// triggersInOrder is a campaign in which everything is in order: a job of three runs, of which one failed once, in place
// of one that was replaced; the stream that had the last run ended, so that it came again.
func triggersInOrder() deliveries.Triggers {
	came := func(payload string, t float64, ok bool) deliveries.Trigger {
		return deliveries.Trigger{Job: "j", Payload: payload, Sidecar: "s", At: moment(t), OK: ok, Answered: moment(t + 0.1)}
	}
	run := func(id string, t, end float64, attempt int) deliveries.Recorded {
		return deliveries.Recorded{ID: id, Job: "j", Life: "new", Status: "succeeded", Scheduled: moment(t),
			Finished: moment(end), Attempt: attempt}
	}
	h := deliveries.Triggers{
		Orders: []deliveries.Order{
			{Job: "j", Payload: "old", Every: time.Second, Runs: 5, Invoke: moment(0), Return: moment(0.1), Acked: true},
			{Job: "j", Payload: "new", Every: 10 * time.Second, Runs: 3, Retries: 1, Invoke: moment(9), Return: moment(9.1),
				Acked: true},
		},
		Seen: []deliveries.Trigger{came("old", 1, true), came("new", 10, true), came("new", 20, false),
			came("new", 20.5, true), came("new", 30, true), came("new", 31, true)},
		Runs: []deliveries.Recorded{run("a", 10, 10.1, 1), run("b", 20, 20.6, 2), run("c", 30, 31.1, 1)},
		Wire: time.Second, Lazy: 2 * time.Second, Recovery: 3 * time.Second,
	}
	h.Runs = append(h.Runs, deliveries.Recorded{ID: "o", Job: "j", Life: "old", Status: "succeeded",
		Scheduled: moment(1), Finished: moment(1.1), Attempt: 1})
	last := &h.Seen[4]
	last.Answered, last.OK, last.Ended = time.Time{}, false, moment(30.5)
	return h
}

// TestTriggers: each rule has a lie that breaks it, and each excuse the history that has it.
func TestTriggers(t *testing.T) {
	for name, c := range map[string]struct {
		change func(h *deliveries.Triggers)
		rules  []string
	}{
		"in order":             {func(*deliveries.Triggers) {}, nil},
		"nobody put it":        {func(h *deliveries.Triggers) { h.Seen[2].Payload = "other" }, []string{"attempts", "invented"}},
		"before it was put":    {func(h *deliveries.Triggers) { h.Seen[0].At = moment(-1) }, []string{"invented"}},
		"it had been replaced": {func(h *deliveries.Triggers) { h.Seen[0].At = moment(10.5) }, []string{"replaced"}},
		"it had been replaced, and was held": {func(h *deliveries.Triggers) {
			h.Seen[0].At = moment(10.5)
			h.Faults = []deliveries.Fault{{From: moment(8), To: moment(10), Holds: true}}
		}, nil},
		"it had been replaced, and a node was killed": {func(h *deliveries.Triggers) {
			h.Seen[0].At = moment(10.5)
			h.Faults = []deliveries.Fault{{From: moment(8), To: moment(10)}}
		}, []string{"replaced"}},
		"the old one ran until the owner had the new one": {func(h *deliveries.Triggers) {
			h.Orders[1].Runs, h.Orders[1].Return = 1, moment(12)
			h.Seen = slices.Delete(h.Seen, 2, len(h.Seen))
			h.Seen[1].At, h.Seen[1].Answered = moment(12.1), moment(12.2)
			h.Runs[0].Scheduled, h.Runs[0].Finished = moment(9.3), moment(12.3)
			h.Runs = h.Runs[:1]
			for _, t := range []float64{9, 10, 11} {
				h.Runs = append(h.Runs, deliveries.Recorded{ID: "o", Job: "j", Life: "old", Status: "succeeded",
					Scheduled: moment(t), Finished: moment(t + 0.2), Attempt: 1})
			}
		}, nil},
		"it may have been replaced": {func(h *deliveries.Triggers) {
			h.Seen[0].At, h.Orders[1].Acked = moment(10.5), false
		}, nil},
		"a run is missing":        {func(h *deliveries.Triggers) { h.Runs = slices.Delete(h.Runs, 1, 2) }, []string{"lost"}},
		"a run at another time":   {func(h *deliveries.Triggers) { h.Runs[1].Scheduled = moment(19) }, []string{"lost", "lost"}},
		"a run that was skipped":  {func(h *deliveries.Triggers) { h.Runs[1].Status = "skipped" }, []string{"lost"}},
		"before its time":         {func(h *deliveries.Triggers) { h.Seen[1].At = moment(9.9) }, []string{"early", "nobody"}},
		"nobody said so":          {func(h *deliveries.Triggers) { h.Seen[5].OK = false }, []string{"nobody"}},
		"an attempt is used up":   {func(h *deliveries.Triggers) { h.Runs[2].Attempt = 2 }, []string{"attempts"}},
		"too many attempts":       {func(h *deliveries.Triggers) { h.Orders[1].Retries = 0 }, []string{"attempts"}},
		"too few, and it is over": {func(h *deliveries.Triggers) { h.Runs[0].Status = "failed" }, []string{"attempts", "attempts"}},
		"answered twice": {func(h *deliveries.Triggers) { h.Seen[4].Answered, h.Seen[4].Ended = moment(30.1), time.Time{} },
			[]string{"twice"}},
		"answered twice, and the stream ended": {func(h *deliveries.Triggers) { h.Seen[4].Answered = moment(30.1) }, nil},
		"answered twice, and a node was killed": {func(h *deliveries.Triggers) {
			h.Seen[4].Answered, h.Seen[4].Ended = moment(30.1), time.Time{}
			h.Faults = []deliveries.Fault{{From: moment(31), To: moment(32)}}
		}, nil},
		"answered twice, long before a kill": {func(h *deliveries.Triggers) {
			h.Seen[4].Answered, h.Seen[4].Ended = moment(30.1), time.Time{}
			h.Faults = []deliveries.Fault{{From: moment(40), To: moment(41)}}
		}, []string{"twice"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := triggersInOrder()
			c.change(&h)
			var rules []string
			for _, v := range deliveries.AuditTriggers(h) {
				rules = append(rules, v.Rule)
			}
			if !slices.Equal(rules, c.rules) {
				t.Errorf("%v, want %v", deliveries.AuditTriggers(h), c.rules)
			}
		})
	}
}
