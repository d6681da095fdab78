package deliveries

import (
	"maps"
	"slices"
)

// everyJob asks what is about jobs.
func (a *audit) everyJob() {
	live := map[string]bool{}
	for _, j := range a.h.Live {
		live[j.Job] = true
		a.counters(j)
	}
	for _, name := range slices.Sorted(maps.Keys(a.jobs)) {
		if j := a.jobs[name]; j.Repeats > 0 && len(a.touches[name]) == 0 {
			a.repeats(j, live[name])
		}
	}
}

// repeats: so many runs begin, each counted once, by its id. A run counts that was seen, or that is recorded
// with an attempt.
func (a *audit) repeats(j Job, live bool) {
	begun := map[string]map[string]bool{} // by life
	for _, id := range a.ids {
		r := a.runs[id]
		if r.job != j.Name {
			continue
		}
		life, cause := "", ""
		if len(r.seen) > 0 {
			life, cause = r.seen[0].Life, r.seen[0].Cause
		} else if r.record.Attempt > 0 {
			life, cause = r.record.Life, r.record.Cause
		}
		if cause != "schedule" {
			continue
		}
		if begun[life] == nil {
			begun[life] = map[string]bool{}
		}
		begun[life][id] = true
	}
	if len(begun) == 0 && j.Acked {
		begun[""] = nil
	}
	for _, ids := range begun {
		if n := len(ids); n > j.Repeats || (n < j.Repeats && !live) {
			a.addf("repeats", j.Name, "%d runs have begun, of %d (%s)", n, j.Repeats, j.Overlap)
		}
	}
}

// counters: what a job counts is what its history has.
func (a *audit) counters(j Live) {
	var fired, succeeded, dead, skipped uint64
	for i := range a.h.Runs {
		r := &a.h.Runs[i]
		if r.Life != j.Life {
			continue
		}
		switch {
		case r.Skipped > 0:
			skipped += r.Skipped
			continue
		case r.Status == "skipped":
			skipped++
		case r.Status == "succeeded":
			succeeded++
		case r.Status == "dead":
			dead++
		}
		if r.Attempt > 0 {
			fired++
		}
	}
	for _, c := range []struct {
		name      string
		says, has uint64
	}{
		{"fired", j.Fired, fired}, {"succeeded", j.Succeeded, succeeded}, {"dead", j.Dead, dead}, {"skipped",
			j.SkippedN, skipped},
	} {
		if c.says != c.has {
			a.addf("counters", j.Job, "it counts %d %s, and its history has %d", c.says, c.name, c.has)
		}
	}
}
