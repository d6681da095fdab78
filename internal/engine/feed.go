package engine

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store"
)

// needsAtOnce is how many long specs are read in one round.
const needsAtOnce = 64

// readAtOnce is how many records one round reads into the window, so that the lane's other partitions do not
// wait long.
const readAtOnce = 256

// feed reads from the store what the machine wants in memory. After a failed read the next round tries again:
// memory only holds less than it could.
func (p *partitionRunner) feed(now int64) {
	if refs := p.m.Needs(needsAtOnce); len(refs) > 0 {
		records, err := p.read(refs)
		if err != nil {
			p.readFailed(err)
			return
		}
		p.m.Load(records, now)
		p.touched = append(p.touched, refs...)
		if len(refs) == needsAtOnce {
			p.box.ring() // there may be more
		}
	}
	for left := readAtOnce; ; {
		q, ok := p.m.WantDue(now)
		if !ok {
			break
		}
		if left <= 0 {
			p.box.ring() // the lane's other partitions come first
			break
		}
		q.Limit = min(q.Limit, left)
		records, err := look(p, func(ctx context.Context) ([]store.Record, error) { return p.shard.Due(ctx, q) })
		if err != nil {
			p.readFailed(err)
			return
		}
		p.m.Loaded(q, records, now)
		left -= len(records)
	}
	p.m.Tick(now)
}

// readFailed logs a failed read. Damage is logged by the store itself, once, and callers are told of theirs.
func (p *partitionRunner) readFailed(err error) {
	if errors.Is(err, store.ErrDamaged) {
		p.e.log.Debug("the store has lost what was to be read", "partition", p.number, "error", err)
		return
	}
	p.e.log.Error("the store could not be read", "partition", p.number, "error", err)
}

// takeAtOnce is how many slots are taken at a time, so that partitions take turns.
const takeAtOnce = 256

// dispatch hands out due runs for which there is room.
func (p *partitionRunner) dispatch(in mail, now int64) {
	for _, q := range in.rooms {
		delete(p.blocked, q)
	}
	for _, q := range in.consumers {
		delete(p.blocked, q)
		delete(p.unserved, q)
	}
	if p.outlived() {
		return
	}
	p.latest = max(p.latest, now)
	p.handOut(now)
	if p.draining() || p.lane.stalled() || p.leapt(now) {
		return
	}
	p.recall(in.rooms, now)
	if p.outlived() {
		return
	}
	p.lineup = p.m.AppendWaiting(p.lineup[:0], now)
	served := 0
	for _, w := range p.lineup {
		if !p.blocked[w.Queue] && !p.unserved[w.Queue] {
			served += p.serve(w, now)
		}
	}
	if served > 0 && p.m.Orphaned(now) {
		p.box.ring() // evicted runs have made room for more that are due
	}
	p.returnRoom(in)
}

// serve hands out due runs of one queue until there is no more room or none waits. It returns how many it
// handed out.
func (p *partitionRunner) serve(w partition.Waiting, now int64) (served int) {
	for w.Now > 0 {
		want := min(w.Now, takeAtOnce)
		slots := p.e.dispatcher.Take(p.number, w.Queue, want, w.Head)
		if !slots.Served {
			p.unserved[w.Queue] = true
			return served
		}
		if slots.N == 0 {
			p.blocked[w.Queue] = true
			return served
		}
		ds, spare := p.m.Deliver(now, w.Queue, slots.N, slots.Durable)
		p.deliver(ds)
		p.moved[w.Queue] += slots.N - spare
		w.Now -= slots.N
		served += slots.N - spare
		if spare > 0 { // the remaining runs wait for permits
			p.e.dispatcher.Return(p.number, w.Queue, spare)
			return served
		}
		w.Head = p.m.Head(w.Queue, now) // what waits now is less urgent: other partitions may go first
	}
	return served
}

func (p *partitionRunner) deliver(ds []partition.Delivery) {
	if len(ds) > 0 {
		p.e.dispatcher.Deliver(ds)
	}
}

// handOut delivers the pending deliveries that have become durable.
func (p *partitionRunner) handOut(now int64) {
	ds, spare := p.m.Granted(now)
	p.deliver(ds)
	for _, q := range spare {
		p.e.dispatcher.Return(p.number, q, 1)
	}
}

// returnRoom returns slots that were reserved for runs that are no longer waiting.
func (p *partitionRunner) returnRoom(in mail) {
	for _, q := range in.rooms {
		if !p.blocked[q] {
			p.e.dispatcher.Take(p.number, q, 0, partition.Head{})
		}
	}
}

// recallBelow is the number of runs in memory, of a queue, below which more are read back from the store.
const recallBelow = 512

// recall reads parked runs back if their queue is served. It knows this for queues that report room, and asks
// for the others.
func (p *partitionRunner) recall(rooms []partition.Queue, now int64) {
	p.parkedQueues = p.m.Parked(p.parkedQueues[:0])
	left := readAtOnce
	for _, q := range p.parkedQueues {
		if left <= 0 {
			p.box.ring() // the lane's other partitions come first
			return
		}
		if !q.Limited() && (p.blocked[q] || p.unserved[q]) {
			continue
		}
		if sq, ok := p.m.WantStaged(q, recallBelow); ok {
			if !q.Limited() && !slices.Contains(rooms, q) && !p.served(q) {
				continue
			}
			records, err := look(p, func(ctx context.Context) ([]store.Record, error) { return p.shard.Staged(ctx, sq) })
			if err != nil {
				p.readFailed(err)
				return
			}
			p.m.LoadStaged(q, sq, records, now)
			left -= max(1, len(records))
		}
	}
}

// served asks whether a queue has a consumer. It gives back any slots of the queue that the partition holds.
func (p *partitionRunner) served(q partition.Queue) bool {
	served := p.e.dispatcher.Take(p.number, q, 0, partition.Head{}).Served
	if !served {
		p.unserved[q] = true // until Consumers reports one
	}
	return served
}

// stageAtOnce is how many runs of a queue one poll parks.
const stageAtOnce = 10_000

// keepFor bounds what a queue without room keeps in memory while others may be kept out: as much as it
// delivers in this many polls. Parking writes each run once more and reads it again, so for a herd that is
// merely large it would take most of the time.
const keepFor = 10

// park moves due runs that wait in vain to the store: those without a consumer, and those of a queue so slow
// that they keep others out of memory.
func (p *partitionRunner) park(now int64) {
	maps.DeleteFunc(p.unserved, func(q partition.Queue, _ bool) bool { return !p.m.Remembers(q) })
	before := now - int64(p.m.StageAfter())
	p.lineup = p.m.AppendWaiting(p.lineup[:0], now)
	p.showDepths()
	if p.m.Crowded(now) {
		p.m.StageAside(before, stageAtOnce)
	}
	for _, w := range p.lineup {
		switch {
		case p.unserved[w.Queue]:
			p.m.Stage(w.Queue, before, stageAtOnce)
		case p.m.Crowded(now) && p.blocked[w.Queue]:
			if most := keepFor * p.moved[w.Queue]; w.N > most {
				p.m.Stage(w.Queue, before, w.N-most)
			}
		}
	}
}
