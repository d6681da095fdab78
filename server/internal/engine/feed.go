package engine

import "github.com/carillonhq/carillon/server/internal/delivery"

// needsAtOnce is how many long specs are read in one round.
const needsAtOnce = 64

// readAtOnce is how many records one round reads into the window, so that the lane's other partitions do not
// wait long.
const readAtOnce = 256

// feed reads from the store what the machine wants in memory. After a failed read the next round tries again:
// memory only holds less than it could.
func (p *partitionRunner) feed(now int64) {
	if refs := p.m.Window.Needs(needsAtOnce); len(refs) > 0 {
		if err := p.records.read(refs, now); err != nil {
			p.reads.failed(err)
			return
		}
		if len(refs) == needsAtOnce {
			p.box.ring() // there may be more
		}
	}
	for left := readAtOnce; ; {
		q, ok := p.m.Window.WantDue(now)
		if !ok {
			break
		}
		if left <= 0 {
			p.box.ring() // the lane's other partitions come first
			break
		}
		q.Limit = min(q.Limit, left)
		records, err := p.reads.due(q)
		if err != nil {
			p.reads.failed(err)
			return
		}
		p.m.Window.Loaded(q, records, now)
		left -= len(records)
	}
	p.m.Tick(now)
}

// dispatch hands out due runs for which there is room. It reports whether it has asked for room.
func (p *partitionRunner) dispatch(in mail, now int64) (asked bool) {
	if p.reads.outlived() {
		return false
	}
	if asked = p.mayBegin(now); asked {
		left := readAtOnce
		p.recallPromoted(&left, now)
		p.rooms.ask(p.m, in.rooms, now)
		p.recall(&left, now)
		if p.reads.outlived() {
			p.rooms.giveBack()
			return false
		}
	}
	p.lease.handingOut(now)
	p.rooms.release(p.m, now)
	if asked {
		if served, more := p.rooms.serve(p.m, now); more || served > 0 && p.m.Window.Lagging(now) {
			p.box.ring() // the lane's other partitions come first; or runs that left make room for more that are due
		}
	}
	p.rooms.deliver()
	return asked
}

// mayBegin reports whether new attempts may be made now.
func (p *partitionRunner) mayBegin(now int64) bool {
	if p.draining() || p.lane.stalled() {
		return false
	}
	leapt := p.lease.leapt(now)
	if leapt {
		p.e.renewSoon()
	}
	return !leapt
}

// recallBelow is the number of runs in memory, of a queue, below which more are read back from the store.
const recallBelow = 512

// recallPromoted reads parked runs back for which permits are reserved in this round.
func (p *partitionRunner) recallPromoted(left *int, now int64) {
	for _, q := range p.m.Permits.Promoted() {
		if _, err := p.readBack(q, left, now); err != nil {
			return
		}
	}
}

// recall reads parked runs back of queues that have room. They go out in the slots that were offered. If there
// are none, because no run of the queue was in memory, or too few, the next round asks for more.
func (p *partitionRunner) recall(left *int, now int64) {
	for i := range p.rooms.lineup {
		if w := &p.rooms.lineup[i]; w.Slots.Served && (w.Now == 0 || w.Slots.N > 0) {
			read, err := p.readBack(w.Queue, left, now)
			if err != nil {
				return
			}
			if read {
				p.box.ring()
			}
		}
	}
}

// readBack reads some of what is parked under a name, unless enough of it is in memory.
func (p *partitionRunner) readBack(q delivery.Queue, left *int, now int64) (read bool, err error) {
	sq, ok := p.m.Window.WantStaged(q, recallBelow)
	switch {
	case !ok:
		return false, nil
	case *left <= 0:
		p.box.ring() // the lane's other partitions come first
		return false, nil
	}
	records, err := p.reads.staged(sq)
	if err != nil {
		p.reads.failed(err)
		return false, err
	}
	p.m.LoadStaged(q, sq, records, now)
	*left -= max(1, len(records))
	return true, nil
}
