package partition

// timer is when an entry wakes. Timers are ordered by that, then ref, so that the order is the same on every
// node. The time is kept beside the pointer, so that a comparison rarely reads an entry.
type timer struct {
	wake int64
	e    *entry
}

// Before reports whether the timer fires first.
func (t timer) Before(o timer) bool {
	if t.wake != o.wake {
		return t.wake < o.wake
	}
	return t.e.ref.Compare(o.e.ref) < 0
}

// At is the timer's index among the timers; -1: it is not armed.
func (t timer) At() *int32 { return &t.e.timer }
