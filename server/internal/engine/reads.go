package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

// lookAgain is how often a lane that waits for a read looks whether the store is away.
const lookAgain = 250 * time.Millisecond

// errAway is why a read is given up, or not begun, if critical runs are to leave meanwhile.
var errAway = errors.New("the store does not answer")

// lookBriefly is how long a lane waits for a read without doing anything else.
const lookBriefly = 20 * time.Millisecond

// reads are the reads of one partition's rounds, under one term. A store on another machine may not answer. A
// read is cancelled when the lease has run out, since the round is of no use then. While it is under way the
// lane relays reports for partitions of other nodes. Only the lane's goroutine reads.
type reads struct {
	number int // of the partition
	lane   *lane
	lease  *lease
	shard  store.Shard
	ring   func() // requests a round of the partition
}

// outlived reports whether the lease has run out during this round, because reads took long. Nothing more may
// be handed out, as another owner may have done so. The next round gives up the term.
func (r *reads) outlived() bool {
	over := r.lease.expired(r.lane.e.elapsed())
	if over {
		r.ring()
	}
	return over
}

// failed logs a failed read. Damage is logged by the store itself, once, and callers are told of theirs.
func (r *reads) failed(err error) {
	if errors.Is(err, store.ErrDamaged) {
		r.lane.e.log.Debug("the store has lost what was to be read", "partition", r.number, "error", err)
		return
	}
	if r.lane.e.reach.away.Load() { // that has been said
		r.lane.e.log.Debug("the store could not be read", "partition", r.number, "error", err)
		return
	}
	r.lane.e.log.Error("the store could not be read", "partition", r.number, "error", err)
}

// look makes one read.
func look[Q, T any](r *reads, read func(context.Context, Q) (T, error), q Q) (value T, err error) {
	if r.lane.near {
		return read(context.Background(), q)
	}
	e := r.lane.e
	switch {
	case r.lease.expired(e.elapsed()):
		return value, errExpired
	case e.cfg.FireCritical && e.reach.away.Load():
		return value, errAway // critical runs do not wait for it
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan struct{})
	e.wg.Go(func() {
		defer close(done)
		value, err = read(ctx, q)
	})
	timer := time.NewTimer(lookBriefly)
	defer timer.Stop()
	select {
	case <-done:
		return value, err
	case <-timer.C:
	}
	r.linger(done, timer, cancel)
	if ctx.Err() != nil && err != nil {
		err = fmt.Errorf("%w: %w", errExpired, err)
	}
	return value, err
}

// linger waits for the end of a slow read, and cancels it when the lease has run out.
func (r *reads) linger(done <-chan struct{}, timer *time.Timer, giveUp context.CancelFunc) {
	l, since := r.lane, time.Now()
	defer l.ring() // what has rung meanwhile is also for the next pass
	for {
		for _, p := range l.parts {
			p.relayMeanwhile()
		}
		left := r.lease.left(l.e.elapsed())
		if left <= 0 || l.e.cfg.FireCritical && l.e.reach.away.Load() {
			giveUp()
			left = pollEvery
		}
		timer.Reset(min(left, lookAgain))
		select {
		case <-done:
			return
		case <-l.bell:
		case <-timer.C:
		}
		if time.Since(since) >= stallAfter {
			since = since.Add(awayAfter)
			l.e.renewNow.ring() // is it the store?
		}
	}
}

// finished finds a run in the history.
func (r *reads) finished(id store.RunID) (run store.RunRecord, found bool, err error) {
	runs, err := look(r, r.shard.Runs, store.RunQuery{ID: &id, Limit: 1})
	if err != nil || len(runs) == 0 {
		return run, false, err
	}
	return runs[0], true, nil
}

// live reads the place of an unfinished run.
func (r *reads) live(id store.RunID) (ref store.Ref, here bool, err error) {
	ref, err = look(r, func(ctx context.Context, id store.RunID) (ref store.Ref, err error) {
		ref, here, err = r.shard.Live(ctx, id)
		return ref, err
	}, id)
	return ref, here, err
}
