package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

// Router sends every call to its partition: to this node's engine, or to that of the owner. It implements
// [carillon.Jobs], [carillon.Runs], [carillon.Backfills], [carillon.Namespaces] and [message.Partitions].
//
//	caller -> API -> Router.route -> view.owners[p] --this node---> engine
//	                   ^                      |
//	                   |                      +-----other node--> peer.Client -> peer.Server -> its engine
//	                   +-- await: newer view or pause <-- refused: ErrNotOwner, ErrNotTaken, ErrUnreached
//
// A call makes one hop at most: the peer's server passes it to its own engine, which answers or refuses with
// [message.ErrNotOwner]; it never forwards the call again, so calls cannot circle while nodes disagree. (That
// engine may itself ask other partitions for their part of the work, through its own router.) The router of
// the node that took the call does all retrying, until the caller's deadline or for routeNoLonger. It tries
// again when the call has certainly not been carried out, each time with the newest view, and waits in
// between until the partition's owner changes or a growing pause is over. After a broken connection the
// outcome is unknown, so only calls that can be repeated without harm are tried again (kind). A read that
// finds no owner for readAfter, or in a trouble of the store that lasts, is answered from the store. Any
// other outcome is returned to the caller as it is.
type Router struct{ n *Node }

var _ Services = (*Router)(nil)

// Router returns the node's router.
func (n *Node) Router() *Router { return &Router{n} }

// Bounds on a call.
const (
	routeNoLonger = 30 * time.Second // timeout of a call without a deadline
	firstPause    = 10 * time.Millisecond
	maxPause      = 500 * time.Millisecond
	// refuseAfter is for how long the store must have been away until calls that find no owner are refused,
	// with the reason, rather than wait for one until their deadlines. Reads are tried at the store.
	refuseAfter = 10 * time.Second
	// readAfter is when a read that has found no owner is answered from the store, which holds everything
	// that was ever acknowledged.
	readAfter = time.Second
)

// kind says what may be done about a call that has failed.
type kind uint8

const (
	once  kind = iota // it changes something
	again             // it may be repeated without harm
	read              // like again, and the store can answer it as well
)

// route calls f with the services of the partition's owner.
func route[T any](ctx context.Context, r *Router, p int, k kind,
	f func(ctx context.Context, s Services) (T, error)) (T, error) {
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
		v := r.n.views.load()
		value, err := attempt(ctx, r, v, p, f)
		if err == nil || !repeatable(err, k) || r.n.last(v) {
			return value, err
		}
		lost = lost || errors.Is(err, ErrLost)
		lasts, trouble := r.n.cfg.Trouble()
		switch isLong := trouble != nil && lasts >= refuseAfter; {
		case k == read && isLong:
			return fromStore(ctx, r, trouble, f)
		case k == read && time.Since(began) >= readAfter:
			return f(ctx, r.n.local)
		case isLong:
			return zero, &carillon.Error{Kind: carillon.Unavailable, Unknown: lost, Err: err,
				Message: trouble.Error()}
		}
		if f := r.n.cfg.Events.Again; f != nil {
			f()
		}
		if !r.await(ctx, v, p, pause) {
			return zero, unowned(ctx, p, lost && k != read, err)
		}
	}
}

// fromStore answers a read while the store is in trouble: it may answer reads although it takes no writes. If
// it does not within readAfter, the trouble is the answer.
func fromStore[T any](ctx context.Context, r *Router, trouble error,
	f func(ctx context.Context, s Services) (T, error)) (T, error) {
	within, cancel := context.WithTimeout(ctx, readAfter)
	defer cancel()
	value, err := f(within, r.n.local)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		err = &carillon.Error{Kind: carillon.Unavailable, Err: err, Message: trouble.Error()}
	}
	return value, err
}

// attempt tries a call once.
func attempt[T any](ctx context.Context, r *Router, v *view, p int,
	f func(ctx context.Context, s Services) (T, error)) (T, error) {
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

// unreached returns the error for a call whose partition has no owner, or one that cannot be reached.
func unreached(err error) error {
	err = fmt.Errorf("%w: %w", ErrUnreached, err)
	return &carillon.Error{Kind: carillon.Unavailable, Message: err.Error(), Err: err}
}

// repeatable reports whether a call with this error may be tried again: it was certainly not carried out, or
// repeating it does no harm.
func repeatable(err error, k kind) bool {
	if k != once && errors.Is(err, ErrLost) {
		return true
	}
	if e, ok := errors.AsType[*carillon.Error](err); ok && e.Unknown {
		return false
	}
	if errors.Is(err, store.ErrFull) {
		return false // there is no room until somebody makes some
	}
	return errors.Is(err, message.ErrNotOwner) || errors.Is(err, message.ErrNotTaken) ||
		errors.Is(err, ErrUnreached)
}

// last reports whether this node ends and no other node stays that could serve.
func (n *Node) last(v *view) bool {
	s := n.membership.state()
	return (s.departs() || s.over()) && v.remainsNobody(n.id)
}

// owner returns the services of a partition's owner according to the view. done must be called when the call
// has ended.
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

// await waits until the partition has another owner than in v, or the pause is over. It returns false if ctx
// ends first.
func (r *Router) await(ctx context.Context, v *view, p int, pause time.Duration) bool {
	r.n.views.poke()
	over := time.After(pause)
	for old := v.owners[p]; ; {
		select {
		case <-v.next:
			v = r.n.views.load()
			if now := v.owners[p]; now.Node != old.Node || now.Term != old.Term {
				return true
			}
		case <-over:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// unowned returns the error for a call that has found no owner in time.
func unowned(ctx context.Context, p int, lost bool, cause error) error {
	kind := carillon.Unavailable
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		kind = carillon.Canceled
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		kind = carillon.DeadlineExceeded
	}
	text := fmt.Sprintf("partition %d had no owner that could be reached in time; try again", p)
	if e, ok := errors.AsType[*carillon.Error](cause); ok && errors.Is(cause, message.ErrNotTaken) {
		text = e.Message + "; tried again until the call's deadline"
	}
	return &carillon.Error{Kind: kind, Unknown: lost, Err: cause, Message: text}
}

// ofJob returns the partition of a job.
func (r *Router) ofJob(k carillon.Key) int {
	if k.Namespace == "" {
		k.Namespace = carillon.DefaultNamespace
	}
	return store.PartitionOf(k, r.n.parts)
}

// byKey is route for a call about a job that needs no more than its key.
func byKey[T any](ctx context.Context, r *Router, key carillon.Key, k kind,
	f func(s Services, ctx context.Context, key carillon.Key) (T, error)) (T, error) {
	return route(ctx, r, r.ofJob(key), k,
		func(ctx context.Context, s Services) (T, error) { return f(s, ctx, key) })
}

// byID is route for a call about a run or a backfill. If the id is not of this store, the local engine can
// say so as well as any other.
func byID[T any](ctx context.Context, r *Router, namespace, id string, k kind,
	f func(s Services, ctx context.Context, namespace, id string) (T, error)) (T, error) {
	rid, err := store.ParseRunID(id)
	if err != nil {
		return f(r.n.local, ctx, namespace, id)
	}
	return route(ctx, r, int(rid.In(r.n.parts).Partition), k, func(ctx context.Context, s Services) (T, error) {
		return f(s, ctx, namespace, id)
	})
}
