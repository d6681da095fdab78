package deliveries

import (
	"slices"
	"time"
)

// stopped: a receiver that is halted lets leases end; when the first one has, the node that had handed it out
// hands it nothing more before it speaks. Nodes do not tell each other. What came is read when it goes on,
// and says when it was handed out.
func (a *audit) stopped() {
	for _, s := range a.l.Stops {
		silent := a.lapses(s)
		for _, d := range a.l.Seen {
			since, lapsed := silent[d.Node]
			if lapsed && d.Receiver == s.Receiver && d.Stream && d.Started.After(since.Add(a.h.Slack.Tick)) &&
				d.Started.Before(s.To) {
				a.addf("stopped", d.Job,
					"attempt %d of run %s was handed to %s at %s, silent since a lease ended at %s",
					d.Attempt,
					d.Run, d.Receiver, clock(d.Started), clock(since))
			}
		}
	}
}

// lapses are when, by node, the first lease ended of what a receiver had got while it was halted.
func (a *audit) lapses(s Stop) map[string]time.Time {
	first := map[string]time.Time{}
	for _, d := range a.l.Seen {
		end := d.Started.Add(d.Lease)
		if d.Receiver != s.Receiver || !d.Stream || d.Started.Before(s.From) || end.After(s.To) || a.over(&d, end) {
			continue
		}
		if before, lapsed := first[d.Node]; !lapsed || end.Before(before) {
			first[d.Node] = end
		}
	}
	return first
}

// over reports whether an attempt was over before a time: its run had ended, as one that another replaced, or
// had its next attempt. Its lease was not in force then, and nobody waited for a word.
func (a *audit) over(d *Delivery, at time.Time) bool {
	r := a.runs[d.Run]
	if r.record != nil && !r.record.Finished.IsZero() && r.record.Finished.Before(at) {
		return true
	}
	return slices.ContainsFunc(r.seen, func(x Delivery) bool {
		return x.Attempt > d.Attempt && x.Started.Before(at)
	})
}
