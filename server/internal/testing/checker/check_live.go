package checker

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// restRules are about what is left in the end, and what comes without ids: S2, S14, L2, L3, L4.
type restRules struct{ *check }

// stuck: L3, nothing is in force at the end whose lease is long over, and what had failed was tried again.
func (c restRules) stuck(j *job) {
	for _, rec := range j.records {
		r := c.runs[rec.RunID]
		if r == nil || rec.Status != "running" {
			continue
		}
		last := c.possible(r, len(r.attempts)-1).to
		if deadline(last, c.k.Dispatch, c.reach.bad(j)).Before(c.h.End) {
			c.addf("L3", j.String(), "run %s is still running at the end, and its lease was over at %s",
				r.id, c.show(last))
		}
	}
}

// rest: L2, after the last fault everything came to rest; S14, and nothing is left behind.
func (c restRules) rest() {
	for _, left := range c.h.Final.Left {
		c.addf("S14", "", "left behind: %s", left)
	}
	if deadline(later(c.h.Healed, c.h.Start), c.k.Dispatch, c.reach.bad(nil)).After(c.h.End) {
		return // it had no time to
	}
	if n := c.h.Final.Overdue; n > 0 {
		c.addf("L2", "", "%d runs are due at the end, and nobody has them", n)
	}
	owners := map[int]Owner{}
	for _, o := range c.h.Final.Owners {
		first, ok := owners[o.Partition]
		if !ok {
			owners[o.Partition] = o
		} else if first.Node != o.Node || first.Epoch != o.Epoch {
			c.addf("L2", "", "partition %d is owned by %s (epoch %d) as %s sees it, and by %s (epoch %d) as %s does",
				o.Partition, first.Node, first.Epoch, first.Seen, o.Node, o.Epoch, o.Seen)
		}
		if o.Node == "" {
			c.addf("L2", "", "partition %d has no owner, as %s sees it", o.Partition, o.Seen)
		}
	}
}

// fairness: L4, no job is much later than others like it. It is a warning only.
func (c restRules) fairness() {
	worst := map[*job]time.Duration{}
	var order []*job
	for _, l := range c.lates {
		if _, ok := worst[l.job]; !ok {
			order = append(order, l.job)
		}
		worst[l.job] = max(worst[l.job], l.by)
	}
	rates := map[string][]*job{}
	for _, j := range order {
		for _, e := range j.effects {
			if e.job != nil && e.job.Schedule != "" {
				rates[e.job.Schedule] = append(rates[e.job.Schedule], j)
				break
			}
		}
	}
	for _, j := range order {
		for _, e := range j.effects {
			if e.job == nil || e.job.Schedule == "" {
				continue
			}
			peers := rates[e.job.Schedule]
			slices.SortFunc(peers, func(a, b *job) int { return cmp.Compare(worst[a], worst[b]) })
			if median := worst[peers[len(peers)/2]]; len(peers) > 2 && worst[j] > 3*median && worst[j] > c.k.Dispatch {
				c.warnf(j.String(), "L4: it was up to %v late, and the median of jobs like it is %v", worst[j], median)
			}
			break
		}
	}
}

// distrust forgets the ids: the times that had to run are matched with the attempts that there were. It finds
// a run that is labelled as two, and labels that were exchanged.
func (c restRules) distrust(j *job) {
	if len(j.effects) != 1 || j.effects[0].job == nil || j.effects[0].job.Schedule == "" {
		return
	}
	var windows []span
	for i := range c.musts {
		m := &c.musts[i]
		if m.job != j || m.skip {
			continue
		}
		w := span{m.at.Add(-c.wrong(m.job, m.at, m.at)), m.by}
		if m.first != nil {
			w.to = later(w.to, m.first.At) // that it is late is said already
		}
		windows = append(windows, w)
	}
	var points []time.Time
	tokens := map[string]bool{}
	for _, r := range j.runs {
		for _, a := range r.attempts {
			if a.Cause == CauseSchedule && (a.Token == "" || !tokens[a.Token]) {
				tokens[a.Token] = true
				points = append(points, a.At)
			}
		}
	}
	if len(windows) > len(points) && !c.complete(j) {
		return // retention may have taken records of what did not run
	}
	unmatched, _ := match(windows, points)
	for _, w := range unmatched {
		c.addf("S2", j.String(), "whatever the run ids say, nothing can have been the run of %s", c.show(w.from))
	}
}

// match gives as many windows as possible a point of their own, by the earliest end first, and returns those
// without and how many points are left over.
func match(windows []span, points []time.Time) (unmatched []span, extras int) {
	windows, points = slices.Clone(windows), slices.Clone(points)
	slices.SortFunc(windows, func(a, b span) int { return cmp.Or(a.to.Compare(b.to), a.from.Compare(b.from)) })
	slices.SortFunc(points, time.Time.Compare)
	next := make([]int, len(points)+1) // the first unused point from there on
	for i := range next {
		next[i] = i
	}
	free := func(i int) int {
		root := i
		for next[root] != root {
			root = next[root]
		}
		for next[i] != root {
			next[i], i = root, next[i]
		}
		return root
	}
	extras = len(points)
	for _, w := range windows {
		i := free(sort.Search(len(points), func(i int) bool { return !points[i].Before(w.from) }))
		if i == len(points) || points[i].After(w.to) {
			unmatched = append(unmatched, w)
			continue
		}
		next[i] = i + 1
		extras--
	}
	return unmatched, extras
}
