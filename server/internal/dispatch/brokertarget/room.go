package brokertarget

// room counts how many more messages a queue may have in flight: as many as the broker's limit leaves; while
// the broker is away one, that tries whether it is back. What left before that does not keep the one from
// trying. The queue's lock guards it.
type room struct {
	limit  int // messages in flight
	out    int // flights that have not landed
	free   int // credits that the hub has of the queue, or is about to get
	away   bool
	outage int // how often the broker was away
	tries  int // of those out, they have left since it is away
}

func newRoom(limit int) room { return room{limit: limit, free: limit} }

// leave counts flights that are delivered, each for a credit.
func (r *room) leave(fs []*flight) {
	for _, f := range fs {
		f.outage = r.outage
	}
	r.out += len(fs)
	r.free -= len(fs)
	if r.away {
		r.tries += len(fs)
	}
}

// tried counts the flights that have left since the broker was away last.
func (r *room) tried(fs []*flight) (n int) {
	for _, f := range fs {
		if f.outage == r.outage {
			n++
		}
	}
	return n
}

// before reports whether a flight left before the broker was away, and it is so still.
func (r *room) before(f *flight) bool { return r.away && f.outage < r.outage }

// land ends flights, and returns how many credits the hub gets: below zero if it has too many.
func (r *room) land(fs []*flight) (credits int) {
	r.out -= len(fs)
	want := r.limit - r.out
	if r.away {
		r.tries -= r.tried(fs)
		want = 1 - r.tries
	}
	credits = want - r.free
	r.free = want
	return credits
}

// shut notes that the broker is away; false: it was already.
func (r *room) shut() bool {
	if r.away {
		return false
	}
	r.away, r.tries = true, 0
	r.outage++
	return true
}

// open notes that the broker is there, and its limit. back: it was away.
func (r *room) open(limit int) (back bool) {
	back = r.away
	r.away, r.limit = false, limit
	return back
}
