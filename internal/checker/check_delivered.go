package checker

// delivered: S12, the history does not deny what consumers had: a run of which somebody had an attempt is not one that did not run,
// and has as many attempts as were seen of it. S2, and the schedule begins no more runs, by their ids, than it may.
func (c *check) delivered(j *job) {
	for _, rec := range j.records {
		r := c.runs[rec.RunID]
		if r == nil || rec.Skipped > 0 || redriven(r, c.h.End) {
			continue
		}
		seen := 0
		for _, a := range r.attempts {
			young := rec.Finished.IsZero() && a.At.After(c.h.End.Add(-lazy)) // a list shows what is durable
			if !young && !c.forgotten(a.At) {
				seen = max(seen, a.Number)
			}
		}
		if seen > rec.Attempt {
			c.addf("S12", j.String(), "run %s is in the history as %s (%s) with %d attempts, and attempt %d was handed out", r.id, rec.Status,
				rec.Reason, rec.Attempt, seen)
		}
	}
	c.repeated(j)
}

// repeated counts the runs of a job that was defined once.
func (c *check) repeated(j *job) {
	if len(j.effects) != 1 || j.effects[0].job == nil || j.effects[0].vague || j.effects[0].limit() == 0 {
		return
	}
	limit := j.effects[0].limit()
	ran := 0
	for _, r := range j.runs {
		if r.first().Cause == CauseSchedule && !c.ranInVain(r) {
			ran++
		}
	}
	if ran > limit {
		c.addf("S2", j.String(), "the schedule began %d runs, and may begin %d", ran, limit)
	}
}
