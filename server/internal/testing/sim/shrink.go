package sim

import "slices"

// Shrink drops operations, faults and habits from a plan that fails, one chunk after the other, as long as it
// still fails in the same way, and returns what is left: nothing in it can be dropped alone. It asks fails at
// most limit times.
func Shrink(p Plan, limit int, fails func(Plan) bool) Plan {
	s := &shrinker{fails: fails, left: limit}
	for before := p.size() + 1; p.size() < before && s.left > 0; {
		before = p.size()
		p.Ops = shrinkOf(s, p.Ops, func(ops []Op) Plan { q := p; q.Ops = ops; return q })
		p.Faults = shrinkOf(s, p.Faults, func(fs []Fault) Plan { q := p; q.Faults = fs; return q })
		p.Habits = shrinkOf(s, p.Habits, func(hs []Habit) Plan { q := p; q.Habits = hs; return q })
	}
	return p
}

type shrinker struct {
	fails func(Plan) bool
	left  int
}

// try reports whether a plan still fails.
func (s *shrinker) try(p Plan) bool {
	if s.left == 0 {
		return false
	}
	s.left--
	return s.fails(p)
}

// shrinkOf drops what it can of one kind of things: halves first, then ever smaller chunks (ddmin).
func shrinkOf[T any](s *shrinker, all []T, plan func([]T) Plan) []T {
	for chunk := max(1, len(all)/2); len(all) > 0; chunk = max(1, chunk/2) {
		for at := 0; at < len(all); {
			rest := slices.Concat(all[:at], all[min(at+chunk, len(all)):])
			if s.try(plan(rest)) {
				all = rest
			} else {
				at += chunk
			}
		}
		if chunk == 1 {
			break
		}
	}
	return all
}
