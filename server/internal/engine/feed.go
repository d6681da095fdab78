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
	if p.rooms.reduced {
		p.m.Tick(now)
		return
	}
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
		records, err := look(&p.reads, p.shard.Due, q)
		if err != nil {
			p.reads.failed(err)
			return
		}
		p.m.Window.Loaded(q, records, now)
		left -= len(records)
	}
	p.m.Tick(now)
}

// dispatch hands out due runs for which there is room. It reports whether it might do so.
func (p *partitionRunner) dispatch(in mail, now int64) (begins bool) {
	r := &p.rooms
	r.later = false
	if begins = p.mayBegin(now); begins {
		if !p.rooms.reduced {
			p.recall(p.m.Permits.Promoted(), now)
		}
		r.ask(p.m, in.slots, now)
		if !p.rooms.reduced {
			p.recall(r.open(), now) // before what is in memory leaves: it may be more urgent
		}
	} else {
		r.refuse(in.slots)
	}
	if p.reads.outlived() {
		begins = false
	} else {
		p.lease.handingOut(now)
		r.release(p.m, now)
	}
	if !begins {
		r.giveBack()
	} else if served, more := r.serve(p.m, now); more || served > 0 && p.m.Window.Lagging(now) {
		p.box.ring() // the lane's other partitions come first; or runs that left make room for more that are due
	}
	r.deliver()
	return begins && !p.rooms.reduced
}

// mayBegin reports whether new attempts may be made now.
func (p *partitionRunner) mayBegin(now int64) bool {
	switch {
	case p.reads.outlived() || p.draining():
		return false
	case p.lane.way.Quiet():
		p.rooms.later = true
		return false
	case p.lane.cutOff() && !p.rooms.reduced:
		return false
	}
	leapt := p.lease.leapt(now)
	if leapt {
		p.e.renewNow.ring()
	}
	return !leapt
}

// recallBelow is the number of runs in memory, of a queue, below which more are read back from the store.
const recallBelow = 512

// recall reads runs back that are parked under some names. Those for which the partition has no slots yet
// leave in the next round.
func (p *partitionRunner) recall(names []delivery.Queue, now int64) {
	left := readAtOnce
	for _, q := range names {
		sq, ok := p.m.Window.WantStaged(q, recallBelow)
		if !ok {
			continue
		}
		if left > 0 {
			records, err := look(&p.reads, p.shard.Staged, sq)
			if err != nil {
				p.reads.failed(err)
				return
			}
			p.m.LoadStaged(q, sq, records, now)
			left -= max(1, len(records))
		}
		p.box.ring() // the lane's other partitions come first
	}
}
