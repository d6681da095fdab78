package partition

// timers is a heap of entries, earliest first, in which each timer has four below it. It is ordered by wake,
// then ref, so that the order is the same on every node. The times are kept beside the pointers, so that a
// comparison rarely reads an entry.
type timers []timer

type timer struct {
	wake int64
	e    *entry
}

// timerArity is the number of timers below each. Four need fewer levels than two, and they are neighbours in
// memory.
const timerArity = 4

func (t timer) before(o timer) bool {
	if t.wake != o.wake {
		return t.wake < o.wake
	}
	return t.e.ref.Compare(o.e.ref) < 0
}

// first returns the entry that wakes first; there must be one.
func (t timers) first() *entry { return t[0].e }

// set arms e's timer, or moves it.
func (t *timers) set(e *entry, wake int64) {
	switch {
	case e.timer < 0:
		*t = append(*t, timer{wake, e})
		t.up(len(*t) - 1)
	case wake != (*t)[e.timer].wake:
		(*t)[e.timer].wake = wake
		t.fix(int(e.timer))
	}
}

// drop disarms e's timer, which must be armed.
func (t *timers) drop(e *entry) {
	i, last := int(e.timer), len(*t)-1
	(*t)[i] = (*t)[last]
	(*t)[last] = timer{}
	*t = (*t)[:last]
	e.timer = -1
	if i < last {
		t.fix(i)
	}
}

// fix moves the timer at i to where it belongs.
func (t *timers) fix(i int) {
	if !t.down(i) {
		t.up(i)
	}
}

// up moves the timer at i towards the first.
func (t timers) up(i int) {
	moving := t[i]
	for i > 0 {
		above := (i - 1) / timerArity
		if !moving.before(t[above]) {
			break
		}
		t.put(i, t[above])
		i = above
	}
	t.put(i, moving)
}

// down moves the timer at i away from the first, and reports whether it moved.
func (t timers) down(i int) (moved bool) {
	moving := t[i]
	for {
		least := t.leastBelow(i)
		if least < 0 || !t[least].before(moving) {
			break
		}
		t.put(i, t[least])
		i, moved = least, true
	}
	t.put(i, moving)
	return moved
}

// leastBelow returns the index of the first of the timers below i, -1 if there are none.
func (t timers) leastBelow(i int) int {
	from := timerArity*i + 1
	if from >= len(t) {
		return -1
	}
	least := from
	for j := from + 1; j < min(from+timerArity, len(t)); j++ {
		if t[j].before(t[least]) {
			least = j
		}
	}
	return least
}

func (t timers) put(i int, it timer) {
	t[i] = it
	it.e.timer = int32(i)
}
