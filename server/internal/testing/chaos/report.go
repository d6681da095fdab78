package chaos

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
	"github.com/carillonhq/carillon/server/internal/testing/deliveries"
	"github.com/carillonhq/carillon/server/store"
)

// Report is what everybody saw of a campaign: clients, workers and the nemesis for package checker, receivers
// and the system's own account for package deliveries.
type Report struct {
	checker.History

	Ledger  deliveries.Ledger
	Account deliveries.History
}

// WriteDeliveries writes what package deliveries judges as JSON.
func (r Report) WriteDeliveries(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	if err := e.Encode(struct {
		Ledger  deliveries.Ledger
		Account deliveries.History
	}{r.Ledger, r.Account}); err != nil {
		return fmt.Errorf("write the deliveries: %w", err)
	}
	return nil
}

// ended is what was read at the end.
type ended struct {
	jobs []carillon.Job
	runs []carillon.Run
}

// report is what everybody saw.
func (c *workers) report() Report {
	h := c.record.History()
	r := Report{History: h, Ledger: c.book.Ledger()}
	for i := range r.Ledger.Seen {
		d := &r.Ledger.Seen[i]
		d.Node = NodeOf(h.Claims, d)
	}
	if h.Final.Whole { // or it was not read, and nothing can be matched with it
		r.Account = c.account(&h)
	} else {
		r.Ledger = deliveries.Ledger{}
	}
	return r
}

// How exact the times of a campaign are.
const (
	wireTime  = time.Second             // until others have seen what a process did, on a busy machine
	lazyTime  = 1500 * time.Millisecond // from which an attempt is durable: a second, and a tick
	tickTime  = 500 * time.Millisecond  // in which a node sees that a lease has ended
	keepsErrs = carillon.MaxRunErrors
)

// account is what the system says, and what was done to it.
func (c *workers) account(h *checker.History) deliveries.History {
	out := deliveries.History{Slack: deliveries.Slack{
		Wire: wireTime, Lazy: lazyTime, Tick: tickTime, Recovery: h.Constants.Recovery + h.Constants.OwnerLease,
		Errors: keepsErrs,
	}}
	for i := range c.ended.runs {
		out.Runs = append(out.Runs, recordOf(&c.ended.runs[i]))
	}
	for i := range c.ended.jobs {
		j, n := &c.ended.jobs[i], c.ended.jobs[i].Status.Counters
		out.Live = append(out.Live, deliveries.Live{Job: j.Name, Life: j.Status.UID.String(), Fired: n.Fired,
			Succeeded: n.Succeeded,
			Dead:      n.Dead, SkippedN: n.Skipped})
	}
	out.Jobs, out.Touches = asked(h)
	for _, d := range c.doors.Deaths() {
		out.Breaks = append(out.Breaks,
			deliveries.Break{Kind: deliveries.Kill, From: d.At, To: d.At, Ends: true, Node: d.Node})
	}
	out.Breaks = append(out.Breaks, c.halts...)
	for _, f := range h.Faults {
		if !strings.HasPrefix(f.Kind, "worker") && !f.Orderly {
			out.Breaks = append(out.Breaks, deliveries.Break{Kind: f.Kind, From: f.From, To: f.To,
				Ends:  endsTerms(f.Kind) && (!c.movesOnly || f.Kind != storeMoves),
				Holds: f.Holds && strings.HasPrefix(f.Kind, "cut off")})
		}
	}
	return out
}

// NodeOf is the node that handed an attempt out, by the claims of the partition that the run's id names.
// Where that is not certain it is a node of its own. Requests do not say when they left: they came at once.
func NodeOf(claims []checker.Claim, d *deliveries.Delivery) string {
	if len(claims) == 0 {
		return ""
	}
	id, err := store.ParseRunID(d.Run)
	var last checker.Claim
	left := d.Started
	if left.IsZero() {
		left = d.At
	}
	for _, x := range claims {
		if err == nil && x.Partition == int(id.Partition) && x.Invoke.Before(left) &&
			x.Invoke.After(last.Invoke) {
			last = x
		}
	}
	if last.Node == "" || last.Return.After(left) {
		return "unknown, of " + d.Token
	}
	return last.Node
}

// endsTerms reports whether an owner may end its term without order in a fault, other than by a kill: the
// moments of those are known.
func endsTerms(kind string) bool {
	return strings.Contains(kind, "freeze") || (strings.Contains(kind, "store") && kind != "slow store")
}

func recordOf(r *carillon.Run) deliveries.Run {
	out := deliveries.Run{ID: r.ID, Job: r.Job, Life: lifeOf(r.ID), Status: r.Status.String(),
		Reason: r.Reason, Cause: r.Cause.String(),
		Scheduled: r.Scheduled, From: r.Skipped.From, Skipped: r.Skipped.Times, Attempt: r.Attempt,
		Finished: r.Finished}
	out.InDoubt = r.InDoubt
	for _, e := range r.Errors {
		out.Errors = append(out.Errors, deliveries.AttemptError{Attempt: e.Attempt, At: e.At,
			Message: e.Message})
	}
	return out
}

// asked is what clients asked of the system: jobs, and calls that changed them after their first put.
func asked(h *checker.History) (jobs []deliveries.Job, touches []deliveries.Touch) {
	first := map[string]int{} // place in jobs
	for i := range h.Ops {
		o := &h.Ops[i]
		defines := o.Spec != nil && o.Kind != checker.Patch
		switch {
		case o.Outcome == checker.Fail, slices.Contains([]checker.OpKind{checker.Get, checker.List,
			checker.Trigger}, o.Kind):
			continue
		case defines:
			at, again := first[o.Job]
			if !again {
				first[o.Job] = len(jobs)
				jobs = append(jobs, deliveries.Job{Name: o.Job, Acked: o.Outcome == checker.OK,
					Overlap: o.Spec.Overlap, Repeats: int(o.Spec.Repeats)})
				continue
			}
			if o.Spec.Overlap == "replace" {
				jobs[at].Overlap = "replace" // it excuses more
			}
		}
		t := deliveries.Touch{Job: o.Job, From: o.Invoke, To: o.Return}
		if o.Outcome == checker.Info {
			t.To = h.End
		}
		touches = append(touches, t)
	}
	return jobs, touches
}

// lifeOf is the uid of a run's job, which its id says.
func lifeOf(id string) string {
	run, err := store.ParseRunID(id)
	if err != nil {
		return ""
	}
	return run.UID.String()
}

// deliveryOf is an attempt as it came, for the ledger.
func deliveryOf(a *checker.Attempt) deliveries.Delivery {
	return deliveries.Delivery{Run: a.RunID, Job: a.Job, Life: lifeOf(a.RunID), Cause: a.Cause,
		Scheduled: a.Scheduled, Attempt: a.Number,
		Token: a.Token, Receiver: a.Worker, Lease: a.Lease, Started: a.Started, At: a.At}
}

// streamed is an attempt as it came on a stream.
func streamed(a *checker.Attempt) deliveries.Delivery {
	d := deliveryOf(a)
	d.Stream, d.Timeout = true, workerTimeout
	return d
}

// answerOfKind is a result as the ledger has it.
func answerOfKind(k checker.ResultKind) deliveries.Answer {
	switch k {
	case checker.Success:
		return deliveries.Success
	case checker.LostWorker, checker.Fabricated:
		return deliveries.NoAnswer
	}
	return deliveries.Failure
}
