package checker

import "slices"

// lines are a job in the history that goes on and, when the store goes back in time, in those that it leaves.
type lines struct {
	now  register
	kept register // as the store will have it again when it goes back
	gone register // as it was before the store last went back: what owners go by who have not noticed
}

// The turns of history, as operations of their own.
const (
	keeps    OpKind = "keeps"     // the store holds what it will go back to
	goesBack OpKind = "goes back" // it does
)

// turns are the operations of a job with their first answers, and the turns of history between them.
func (c callRules) turns(j *job) []*Op {
	if len(c.lapses.went) == 0 {
		return j.ops
	}
	var out []*Op
	for _, o := range j.ops {
		if l, lost := c.lapses.lost[o]; lost && l.was.Outcome != Info {
			o = &l.was
		}
		out = append(out, o)
	}
	for _, f := range c.lapses.went {
		out = append(out, &Op{Kind: keeps, Invoke: f.From, Return: f.From, Outcome: OK},
			&Op{Kind: goesBack, Invoke: f.Back, Return: f.Back, Outcome: OK})
	}
	slices.SortStableFunc(out, func(a, b *Op) int { return a.Invoke.Compare(b.Invoke) })
	return out
}

// step is what an operation makes of the lines, and whether its answer is right. One that an owner may have
// answered that had not noticed that the store went back has changed nothing then.
func (l lines) step(o *Op, lapses []*Fault) (bool, lines) {
	switch o.Kind {
	case keeps:
		l.kept = l.now
		return true, l
	case goesBack:
		l.now, l.gone = l.kept, l.now
		return true, l
	}
	ok, next := l.now.step(o)
	if slices.ContainsFunc(lapses, func(f *Fault) bool { return unaware(f, o) }) {
		stale, _ := l.gone.step(o)
		switch {
		case !ok:
			return stale, l
		case !stale: // it was of the line that goes on
		case o.Kind == Pause || o.Kind == Resume:
			next.paused, next.unsaid = l.now.paused, true
		default:
			next = l.now
		}
	}
	l.now = next
	return ok, l
}
