package deliveries

import "time"

// stopped: a receiver that is halted lets leases end; when the first one has, it gets nothing more before it
// speaks. What came is read when it goes on, and says when it was handed out.
func (a *audit) stopped() {
	for _, s := range a.l.Stops {
		silent := a.firstLapse(s)
		if silent.IsZero() {
			continue
		}
		for _, d := range a.l.Seen {
			if d.Receiver == s.Receiver && d.Stream && d.Started.After(silent.Add(a.h.Slack.Tick)) &&
				d.Started.Before(s.To) {
				a.addf("stopped", d.Job,
					"attempt %d of run %s was handed to %s at %s, silent since a lease ended at %s",
					d.Attempt,
					d.Run, d.Receiver, clock(d.Started), clock(silent))
			}
		}
	}
}

// firstLapse is when the first lease ended of what a receiver had got while it was halted; zero: none did.
func (a *audit) firstLapse(s Stop) (first time.Time) {
	for _, d := range a.l.Seen {
		end := d.Started.Add(d.Lease)
		if d.Receiver != s.Receiver || !d.Stream || d.Started.Before(s.From) || end.After(s.To) {
			continue
		}
		if first.IsZero() || end.Before(first) {
			first = end
		}
	}
	return first
}
