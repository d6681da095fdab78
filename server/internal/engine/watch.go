package engine

import (
	"context"
	"slices"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// watches tells what happens in all partitions: it implements [carillon.Events]. Partitions record events
// in the batches of what they tell, while somebody watches or webhooks ask for them
// ([partition.EventLog]). A watcher takes what the node's tail has read of them (tail.go), which all
// watchers share. One that is behind the tail, because it goes on from an earlier position or does not
// keep up, reads by itself what it lacks:
//
//	lanes --durable records--> tail --chunks--> watcher --batches--> caller
//	store --records of others'--^                  ^
//	store --records that the tail no longer has ---'
//
// So nothing waits for a slow watcher, and what it has not taken is kept in the store alone.
type watches struct {
	*partitions
	cfg  *Config
	tail *tail
}

func newWatches(cfg *Config, ps *partitions) *watches {
	w := &watches{partitions: ps, cfg: cfg}
	w.tail = newTail(w)
	return w
}

// Bounds on watching.
const (
	watchersMost = 1000 // of a node
	// watchIdle is how often a watcher is told the position if nothing happens that it has asked for.
	watchIdle   = 15 * time.Second
	batchEvents = 512     // about the most in a batch
	batchBytes  = 1 << 20 // about the most bytes of a batch
)

// Watch implements [carillon.Events].
func (w *watches) Watch(ctx context.Context, q carillon.WatchQuery,
	f func(carillon.EventBatch) error) error {
	if err := q.Validate(); err != nil {
		return err
	}
	return w.run(ctx, &watcher{w: w, query: &q, f: f, whole: true})
}

// FollowWanted is Watch of everything for whoever tells webhooks. Only events of types that webhooks ask
// for are sure to be among those that come. Nothing is recorded because of it, so a position holds as long
// as what has been recorded since is kept.
func (w *watches) FollowWanted(ctx context.Context, position string,
	f func(carillon.EventBatch) error) error {
	return w.run(ctx, &watcher{w: w, query: &carillon.WatchQuery{Position: position}, f: f})
}

// run has v tell what happens until ctx, v or the engine ends.
func (w *watches) run(ctx context.Context, v *watcher) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.life, cancel)()
	err := w.follow(ctx, v)
	if w.life.Err() != nil {
		return errStopping()
	}
	return err
}

// follow has v tell what happens from its query's position on.
func (w *watches) follow(ctx context.Context, v *watcher) (err error) {
	if v.pos, err = w.from(ctx, v.query.Position, v.whole); err != nil {
		return err
	}
	if v.next, err = w.tail.join(v.pos, v.whole); err != nil {
		return err
	}
	defer w.tail.leave(v.whole)
	if err := v.flush(true); err != nil { // so that the caller can go on from here before anything happens
		return err
	}
	return v.run(ctx)
}

// from returns where a watch begins: at a position, or now.
func (w *watches) from(ctx context.Context, token string, whole bool) (position, error) {
	if token == "" {
		pos := make(position, len(w.parts))
		return pos, sideBySide(len(pos), func(p int) (err error) {
			if whole {
				pos[p], err = across(ctx, w.partitions, w.parts[p], message.RecordEvents{})
			} else {
				pos[p], err = w.newestRecorded(ctx, p)
			}
			return err
		})
	}
	pos, err := w.positionOf(token)
	if err != nil {
		return nil, err
	}
	now := w.cfg.now()
	return pos, sideBySide(len(pos), func(p int) error {
		state, err := w.watched(ctx, p)
		switch {
		case err != nil:
			return err
		case pos[p] < state.Floor, whole && (pos[p] < state.Whole || now >= state.Until):
			return errGone()
		}
		return nil
	})
}

// newestRecorded returns the number of the newest durable record of events.
func (ps *partitions) newestRecorded(ctx context.Context, p int) (uint64, error) {
	state, err := ps.watched(ctx, p)
	if err != nil {
		return 0, err
	}
	newest, err := AllMetaRecords(ctx, ps.shards[p], partition.AfterMarks(&state))
	switch {
	case err != nil:
		return 0, readError(err)
	case len(newest) == 0:
		return state.Last, nil
	}
	return max(state.Last, partition.EventNumber(newest[len(newest)-1].Key)), nil
}

// watched reads who watches a partition.
func (ps *partitions) watched(ctx context.Context, p int) (store.Watched, error) {
	records, err := ps.shards[p].MetaRecords(ctx, store.MetaQuery{Kind: store.KindWatched, Limit: 1})
	if err != nil {
		return store.Watched{}, readError(err)
	}
	w, err := partition.ReadWatched(records)
	if err != nil {
		return w, readError(err)
	}
	return w, nil
}

// errGone is why a watch cannot go on.
func errGone() error {
	return carillon.Errorf(carillon.FailedPrecondition, "position",
		"some of what has happened since is no longer there: list what there is, and watch again without a position")
}

// watcher is one call of Watch.
type watcher struct {
	w     *watches
	query *carillon.WatchQuery
	f     func(carillon.EventBatch) error
	whole bool     // everything is recorded for it
	pos   position // of what it has taken
	next  place    // where it goes on in the tail

	events []carillon.Event // to be told
	bytes  int
}

// run tells what happens until ctx ends, the caller fails, or something is missing.
func (v *watcher) run(ctx context.Context) error {
	idle := time.NewTimer(watchIdle)
	defer idle.Stop()
	for {
		if err := v.catchUp(ctx); err != nil {
			return err
		}
		c, more := v.w.tail.after(&v.next)
		if c == nil && more == nil {
			continue // the tail no longer has what comes next
		}
		if c != nil {
			if c.err != nil {
				return c.err
			}
			if err := v.takeChunk(c); err != nil {
				return err
			}
			continue
		}
		idle.Reset(watchIdle)
		select {
		case <-more:
		case <-idle.C:
			if err := v.flush(true); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// catchUp reads what the watcher lacks until it is where it goes on in the tail.
func (v *watcher) catchUp(ctx context.Context) error {
	for {
		var behind []int
		for p := range v.pos {
			if v.pos[p] < v.next.pos[p] {
				behind = append(behind, p)
			}
		}
		if len(behind) == 0 {
			return nil
		}
		pages := make([][]recorded, len(behind))
		err := sideBySide(len(behind), func(i int) (err error) {
			pages[i], err = v.w.recordedAfter(ctx, behind[i], v.pos[behind[i]])
			return err
		})
		if err != nil {
			return err
		}
		for i := range behind {
			if len(pages[i]) == 0 { // the store has lost them, or somebody has deleted them
				return errGone()
			}
		}
		if err := v.take(merged(pages)); err != nil {
			return err
		}
		if err := v.flush(false); err != nil {
			return err
		}
	}
}

// takeChunk tells what the watcher has asked for of a chunk. Watchers of everything share a batch, which is
// then encoded once for all of them.
func (v *watcher) takeChunk(c *chunk) error {
	fresh := v.query.Namespace == "" && len(v.query.Types) == 0
	for i := 0; fresh && i < len(c.records); i++ {
		fresh = c.records[i].number > v.pos[c.records[i].partition] && !c.records[i].unrecorded
	}
	if !fresh {
		if err := v.take(c.records); err != nil {
			return err
		}
		return v.flush(false)
	}
	for i := range c.records {
		v.pos[c.records[i].partition] = c.records[i].number
	}
	if !slices.Equal(v.pos, c.pos) {
		return v.f(carillon.EventBatch{Events: c.events, Position: v.w.tokenOf(v.pos)})
	}
	return v.f(carillon.EventBatch{Events: c.events, Position: c.token})
}

// take has those events told that the watcher has not had yet and that it has asked for.
func (v *watcher) take(records []recorded) error {
	for i := range records {
		r := &records[i]
		if r.number <= v.pos[r.partition] {
			continue
		}
		if v.whole && r.unrecorded {
			return errGone()
		}
		if v.pos[r.partition] = r.number; len(v.events) >= batchEvents || v.bytes >= batchBytes {
			if err := v.flush(false); err != nil {
				return err
			}
		}
		for j := range r.events {
			if e := &r.events[j]; v.query.Selects(e) {
				v.events = append(v.events, *e)
				v.bytes += eventBytes(r.events[j : j+1])
			}
		}
	}
	return nil
}

// flush tells what has been taken. If that is nothing, it tells the position only if asked to.
func (v *watcher) flush(always bool) error {
	if len(v.events) == 0 && !always {
		return nil
	}
	b := carillon.EventBatch{Events: v.events, Position: v.w.tokenOf(v.pos)}
	v.events, v.bytes = nil, 0
	return v.f(b)
}
