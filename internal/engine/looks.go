package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/identity"
	"github.com/carillonhq/carillon/store"
)

// lookBriefly is how long a lane waits for a read without doing anything else.
const lookBriefly = 20 * time.Millisecond

// look reads from the store for a round of the partition. A store on another machine may not answer. The read
// is cancelled when the lease has run out, since the round is of no use then. While it is under way the lane
// relays reports for partitions of other nodes. It is called on the lane's goroutine.
func look[T any](p *partitionRunner, read func(ctx context.Context) (T, error)) (value T, err error) {
	if p.lane.near {
		return read(p.ctx)
	}
	if p.expired() {
		return value, errExpired
	}
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	done := make(chan struct{})
	p.e.wg.Go(func() {
		defer close(done)
		value, err = read(ctx)
	})
	timer := time.NewTimer(lookBriefly)
	defer timer.Stop()
	select {
	case <-done:
		return value, err
	case <-timer.C:
	}
	p.linger(done, timer, cancel)
	if ctx.Err() != nil && err != nil {
		err = fmt.Errorf("%w: %w", errExpired, err)
	}
	return value, err
}

// linger waits for the end of a slow read, and cancels it when the lease has run out.
func (p *partitionRunner) linger(done <-chan struct{}, timer *time.Timer, giveUp context.CancelFunc) {
	l := p.lane
	defer l.ring() // what has rung meanwhile is also for the next pass
	for {
		for _, q := range l.parts {
			q.passMeanwhile()
		}
		left := time.Duration(p.leased.Load() + int64(p.e.validFor()) - p.e.elapsed())
		if left <= 0 {
			giveUp()
			left = pollEvery
		}
		timer.Reset(left)
		select {
		case <-done:
			return
		case <-l.bell:
		case <-timer.C:
		}
	}
}

// read is look for records.
func (p *partitionRunner) read(refs []store.Ref) ([]store.Record, error) {
	return look(p, func(ctx context.Context) ([]store.Record, error) { return p.shard.Read(ctx, refs) })
}

// small is look for metadata records.
func (p *partitionRunner) small(q store.MetaQuery) ([]store.MetaRecord, error) {
	return look(p, func(ctx context.Context) ([]store.MetaRecord, error) { return p.shard.MetaRecords(ctx, q) })
}

// live is look for the place of an unfinished run.
func (p *partitionRunner) live(id identity.Run) (ref store.Ref, here bool, err error) {
	ref, err = look(p, func(ctx context.Context) (ref store.Ref, err error) {
		ref, here, err = p.shard.Live(ctx, id)
		return ref, err
	})
	return ref, here, err
}
