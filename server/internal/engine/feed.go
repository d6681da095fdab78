package engine

import (
	"slices"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

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

// dispatch hands out due runs for which there is room.
func (p *partitionRunner) dispatch(in mail, now int64) {
	p.rooms.opened(in.rooms, in.consumers)
	if p.reads.outlived() {
		return
	}
	p.lease.handingOut(now)
	p.rooms.deliverDurable(p.m, now)
	if p.draining() || p.lane.stalled() {
		return
	}
	if p.lease.leapt(now) {
		p.e.renewSoon()
		return
	}
	p.recall(in.rooms, now)
	if p.reads.outlived() {
		return
	}
	if served, more := p.rooms.serve(p.m, now); more || served > 0 && p.m.Window.Lagging(now) {
		p.box.ring() // the lane's other partitions come first; or runs that left make room for more that are due
	}
	p.rooms.giveBack(in.rooms)
}

// recallBelow is the number of runs in memory, of a queue, below which more are read back from the store.
const recallBelow = 512

// recall reads parked runs back if their queue is served. It knows this for queues that report room, and asks
// for the others.
func (p *partitionRunner) recall(room []delivery.Queue, now int64) {
	rooms := &p.rooms
	rooms.parked = p.m.Queues.Parked(rooms.parked[:0])
	left := readAtOnce
	for _, q := range rooms.parked {
		if left <= 0 {
			p.box.ring() // the lane's other partitions come first
			return
		}
		if !q.Limited() && rooms.closed(q) {
			continue
		}
		if sq, ok := p.m.Window.WantStaged(q, recallBelow); ok {
			if !q.Limited() && !slices.Contains(room, q) && !rooms.served(q) {
				continue
			}
			records, err := p.reads.staged(sq)
			if err != nil {
				p.reads.failed(err)
				return
			}
			p.m.LoadStaged(q, sq, records, now)
			left -= max(1, len(records))
		}
	}
}
