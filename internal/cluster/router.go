package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/store"
)

// Router does every call where its partition is: in this node's engine, or in that of the owner. It implements [carillon.Jobs],
// [carillon.Runs], [carillon.Backfills], [carillon.Namespaces] and [engine.Partitions].
//
// A call that has certainly not been done is tried again until its caller's deadline, with an ever newer view of who owns what;
// one that reads, or that may be repeated, also after its connection broke. Any other outcome is the caller's, as it is.
type Router struct{ n *Node }

var _ Services = (*Router)(nil)

// Router is how calls find their partitions.
func (n *Node) Router() *Router { return &Router{n} }

// Bounds on a call.
const (
	routeNoLonger = 30 * time.Second // without a deadline of its caller's
	firstPause    = 10 * time.Millisecond
	maxPause      = 500 * time.Millisecond
	// readAfter is when a read that has found no owner is answered from the store, where all is that was ever acknowledged.
	readAfter = time.Second
)

// kind is what may be done with a call that has failed.
type kind uint8

const (
	once  kind = iota // it changes something
	again             // it may be repeated without harm
	read              // the same, and the store can answer it as well
)

// route does f where the partition is.
func route[T any](ctx context.Context, r *Router, p int, k kind, f func(ctx context.Context, s Services) (T, error)) (T, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, routeNoLonger)
		defer cancel()
	}
	var zero T
	began, lost := time.Now(), false
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		if f := r.n.cfg.Enter; f != nil {
			f(ctx, p, "")
		}
		v := r.n.view.Load()
		value, err := attempt(ctx, r, v, p, f)
		if err == nil || !repeatable(err, k) || r.n.last(v) {
			return value, err
		}
		lost = lost || errors.Is(err, ErrLost)
		if k == read && time.Since(began) >= readAfter {
			return f(ctx, r.n.local)
		}
		if f := r.n.cfg.Events.Again; f != nil {
			f()
		}
		if !r.await(ctx, v, p, pause) {
			return zero, unowned(ctx, p, lost && k != read, err)
		}
	}
}

// attempt does f once.
func attempt[T any](ctx context.Context, r *Router, v *view, p int, f func(ctx context.Context, s Services) (T, error)) (T, error) {
	s, done, err := r.owner(v, p)
	if err != nil {
		var zero T
		return zero, unreached(err)
	}
	defer done()
	told := r.n.cfg.Events.Forwarded
	if s == Services(r.n.local) || told == nil {
		return f(ctx, s)
	}
	began := time.Now()
	defer func() { told(time.Since(began)) }()
	return f(ctx, s)
}

// unreached is the error of a call for which there is nobody, or no way to him.
func unreached(err error) error {
	err = fmt.Errorf("%w: %w", ErrUnreached, err)
	return &carillon.Error{Kind: carillon.Unavailable, Message: err.Error(), Err: err}
}

// repeatable reports whether a call that ended so may be tried again: it was certainly not done, or does no harm.
func repeatable(err error, k kind) bool {
	if k != once && errors.Is(err, ErrLost) {
		return true
	}
	if e, ok := errors.AsType[*carillon.Error](err); ok && e.Unknown {
		return false
	}
	if errors.Is(err, store.ErrFull) {
		return false // there will be no room before somebody makes it
	}
	return errors.Is(err, engine.ErrNotOwner) || errors.Is(err, engine.ErrNotTaken) || errors.Is(err, ErrUnreached)
}

// last reports whether this node is leaving and nobody stays who could do anything.
func (n *Node) last(v *view) bool { return n.exit.leaving.Load() && v.staysNobody(n.id) }

// owner is who owns a partition, as far as is known, for a call that is under way until done is called.
func (r *Router) owner(v *view, p int) (s Services, done func(), err error) {
	if r.n.local == nil {
		return nil, nil, errors.New("the node has not started")
	}
	id := v.owners[p].Node
	if id == r.n.id {
		return r.n.local, func() {}, nil
	}
	m, lives := v.member(id)
	if !lives {
		return nil, nil, fmt.Errorf("partition %d has no living owner", p)
	}
	return r.n.peers.of(m)
}

// await waits until the partition has another owner than in v, or the pause is over; false if ctx ends first.
func (r *Router) await(ctx context.Context, v *view, p int, pause time.Duration) bool {
	r.n.poke()
	t := time.NewTimer(pause)
	defer t.Stop()
	for old := v.owners[p]; ; {
		select {
		case <-v.next:
			v = r.n.view.Load()
			if now := v.owners[p]; now.Node != old.Node || now.Term != old.Term {
				return true
			}
		case <-t.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// unowned is the error of a call that has found no owner in time.
func unowned(ctx context.Context, p int, lost bool, cause error) error {
	kind := carillon.Unavailable
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		kind = carillon.Canceled
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		kind = carillon.DeadlineExceeded
	}
	message := fmt.Sprintf("partition %d had no owner that could be reached in time; try again", p)
	if e, ok := errors.AsType[*carillon.Error](cause); ok && errors.Is(cause, engine.ErrNotTaken) {
		message = e.Message + "; tried again until the call's deadline"
	}
	return &carillon.Error{Kind: kind, Unknown: lost, Err: cause, Message: message}
}

// ofJob is the partition of a job.
func (r *Router) ofJob(k carillon.Key) int {
	if k.Namespace == "" {
		k.Namespace = carillon.DefaultNamespace
	}
	return carillon.PartitionOf(k, r.n.parts)
}

// ofID is the partition in the id of a run or a backfill; -1 if it is none of this store, which the engine here will say as well
// as any.
func (r *Router) ofID(id string) int {
	rid, err := carillon.ParseRunID(id)
	if err != nil || int(rid.Partition) >= r.n.parts {
		return -1
	}
	return int(rid.Partition)
}

// byID is route for a call about a run or a backfill.
func byID[T any](ctx context.Context, r *Router, id string, k kind, f func(ctx context.Context, s Services) (T, error)) (T, error) {
	if p := r.ofID(id); p >= 0 {
		return route(ctx, r, p, k, f)
	}
	return f(ctx, r.n.local)
}
