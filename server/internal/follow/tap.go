package follow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

// Tap stands between the lanes of an engine and the store. Through it changes can be followed, and held back
// for a moment. It is safe for concurrent use.
type Tap struct {
	mu      sync.Mutex
	lines   []*Line
	parts   []tapped      // by partition
	log     *changeLog    // of the one who follows; nil: nobody does
	holding atomic.Bool   // nothing is sent to the store; it is set with the lock
	quiet   atomic.Bool   // nothing is handed out; it is set with the lock
	settled chan struct{} // closed when something has changed; nil: nobody awaits that
	over    error         // set: nothing is sent to the store any more
	ended   chan struct{} // closed when over is set
}

// tapped is the state of a partition.
type tapped struct {
	flying bool // a batch of it is with the store
	mode   mode
}

// mode is what is done with the batches of a partition.
type mode uint8

const (
	passed   mode = iota // nobody follows
	copied               // they are recorded, and no finished runs are removed
	followed             // they are recorded
	broken               // one has failed: nothing is recorded, until somebody follows again
)

// NewTap makes the tap of a store with so many partitions.
func NewTap(partitions int) *Tap {
	return &Tap{parts: make([]tapped, partitions), ended: make(chan struct{})}
}

// Line makes a lane's way to the store, which ends at next.
func (t *Tap) Line(next store.Submitter) *Line {
	l := &Line{tap: t, next: next}
	l.landed = l.land
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, l)
	return l
}

// Line is a lane's way to the store. There is one group on it at a time.
type Line struct {
	tap    *Tap
	next   store.Submitter
	landed func(error) // land, bound once

	// The group on the line, guarded by the tap. Batches that were changed on the way are in writes alone.
	partitions []int
	writes     []store.Write
	done       func(error)
	held       bool // it waits until it may be sent
}

// Submit is Submit of a [store.Submitter] for a group of batches of these partitions.
func (l *Line) Submit(partitions []int, writes []store.Write, done func(error)) {
	t := l.tap
	t.mu.Lock()
	if t.over != nil {
		t.mu.Unlock()
		done(t.over)
		return
	}
	l.partitions, l.writes, l.done, l.held = partitions, writes, done, t.holding.Load()
	if !l.held {
		l.depart()
	}
	held := l.held
	t.mu.Unlock()
	if !held {
		l.next.Submit(l.writes, l.landed)
	}
}

// Holds reports whether what is submitted is held back, although the store may answer.
func (l *Line) Holds() bool { return l.tap.holding.Load() }

// Quiet reports whether nothing may be handed out: what is submitted is held back, or soon will be.
func (l *Line) Quiet() bool { return l.tap.quiet.Load() || l.tap.holding.Load() }

// depart notes what goes to the store. The caller has the lock, and sends it.
func (l *Line) depart() {
	t := l.tap
	for i, p := range l.partitions {
		part := &t.parts[p]
		part.flying = true
		if with := part.change(l.writes[i].Batch); with != l.writes[i].Batch {
			l.writes = slices.Clone(l.writes)
			l.writes[i].Batch = with
		}
	}
}

// change returns a batch as the store is to have it. Which finished runs a trim or an expiry removes depends
// on what is there, and on the kind of store: what is copied has none. The machine of the partition asks for
// both again: for a trim when as many runs more have ended, for an expiry once a minute.
func (p *tapped) change(b *store.Batch) *store.Batch {
	if p.mode != copied || len(b.Trims) == 0 && b.Expire == nil {
		return b
	}
	less := *b
	less.Trims, less.Expire = nil, nil
	return &less
}

// land takes the outcome of the group from the store.
func (l *Line) land(err error) {
	t, done := l.tap, l.done
	t.mu.Lock()
	for i, p := range l.partitions {
		part := &t.parts[p]
		part.flying = false
		switch {
		case part.mode != copied && part.mode != followed:
		case err == nil:
			t.log.add(p, l.writes[i].Batch)
		default: // its term ends; what became of the batch is not known, perhaps
			part.mode = broken
		}
	}
	l.partitions, l.writes, l.done = nil, nil, nil
	t.changed()
	t.mu.Unlock()
	done(err)
}

// changed wakes those who await something. The caller has the lock.
func (t *Tap) changed() {
	if t.settled != nil {
		close(t.settled)
		t.settled = nil
	}
}

// errFollowed: somebody follows already.
var errFollowed = errors.New("another command copies what this node holds: wait until it has ended")

// goneWithin is how long it may take until the node has noticed that whoever followed has gone.
const goneWithin = 2 * time.Second

// follow begins to follow: changes go to log. It is ended by unfollow.
func (t *Tap) follow(ctx context.Context, log *changeLog) error {
	ctx, cancel := context.WithTimeoutCause(ctx, goneWithin, errFollowed)
	defer cancel()
	return t.await(ctx, func() bool {
		free := t.log == nil
		if free {
			t.log = log
		}
		return free
	})
}

// unfollow ends what follow began. What is held goes on.
func (t *Tap) unfollow() {
	t.mu.Lock()
	for p := range t.parts {
		t.parts[p].mode = passed
	}
	t.log = nil
	t.changed()
	t.mu.Unlock()
	t.release()
}

// set sets what is done with the batches of a partition that are sent from now on, unless ctx has ended.
// Where a copy begins it waits for one that has been sent already.
func (t *Tap) set(ctx context.Context, partition int, m mode) error {
	return t.await(ctx, func() bool {
		part := &t.parts[partition]
		switch {
		case ctx.Err() != nil, part.flying && part.mode != copied && m == copied:
			return false
		case m == copied && part.mode != copied:
			t.log.forget(partition)
		}
		if part.mode != broken || m == copied || m == passed {
			part.mode = m
		}
		return true
	})
}

// breaks reports whether a batch of a partition has failed since it is followed.
func (t *Tap) breaks(partition int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.parts[partition].mode == broken
}

// await waits until is reports true. It is called with the lock, again whenever something has changed.
func (t *Tap) await(ctx context.Context, is func() bool) error {
	for {
		t.mu.Lock()
		if is() {
			t.mu.Unlock()
			return nil
		}
		if t.settled == nil {
			t.settled = make(chan struct{})
		}
		settled := t.settled
		t.mu.Unlock()
		select {
		case <-settled:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// settle has nothing handed out until release, and waits for as long as it takes until what has been handed
// out is durable.
func (t *Tap) settle(ctx context.Context) error {
	t.mu.Lock()
	t.quiet.Store(true)
	t.mu.Unlock()
	passed := time.NewTimer(settleFor)
	defer passed.Stop()
	select {
	case <-passed.C:
		return nil
	case <-ctx.Done():
		t.release()
		return context.Cause(ctx)
	}
}

// settleFor is how long it takes until an attempt that has been handed out has been sent to the store: a
// second (docs/decisions/0019), and a moment of a busy machine.
const settleFor = 2 * time.Second

// hold has nothing sent to the store until release, and waits for what has been sent already.
func (t *Tap) hold(ctx context.Context) error {
	t.mu.Lock()
	t.holding.Store(true)
	t.mu.Unlock()
	err := t.await(ctx, func() bool {
		return !slices.ContainsFunc(t.parts, func(p tapped) bool { return p.flying })
	})
	if err != nil {
		t.release()
		return fmt.Errorf("the store has not answered: %w", err)
	}
	return nil
}

// release sends what hold held back, and has runs handed out again.
func (t *Tap) release() {
	t.mu.Lock()
	t.holding.Store(false)
	t.quiet.Store(false)
	var waiting []*Line
	for _, l := range t.lines {
		if l.held {
			l.held = false
			l.depart()
			waiting = append(waiting, l)
		}
	}
	t.mu.Unlock()
	for _, l := range waiting {
		l.next.Submit(l.writes, l.landed)
	}
}

// end has nothing sent to the store any more: what is held, and what comes, ends with err.
func (t *Tap) end(err error) {
	t.mu.Lock()
	if t.over != nil {
		t.mu.Unlock()
		return
	}
	t.over = err
	var waiting []func(error)
	for _, l := range t.lines {
		if l.held {
			l.held = false
			waiting = append(waiting, l.done)
			l.partitions, l.writes, l.done = nil, nil, nil
		}
	}
	close(t.ended)
	t.mu.Unlock()
	for _, done := range waiting {
		done(err)
	}
}

// Ended is closed when the store is written no more, since it has moved.
func (t *Tap) Ended() <-chan struct{} { return t.ended }
