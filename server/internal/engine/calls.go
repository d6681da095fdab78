package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

// serveCalls loads what the calls need and runs them.
func (p *partitionRunner) serveCalls(calls []call, now int64) {
	if len(calls) == 0 {
		return
	}
	var refs []store.Ref
	var live []store.RunID
	for i := range calls {
		refs = append(refs, calls[i].refs...)
		live = append(live, calls[i].live...)
	}
	err := p.records.bring(refs, live, now)
	for i := 0; err == nil && i < len(calls); i++ {
		for k := 0; err == nil && calls[i].pending && k < len(calls[i].refs); k++ {
			err = p.records.bringPending(calls[i].refs[k].Key, now)
		}
	}
	if err != nil {
		p.refuseUnread(calls, err, now)
		return
	}
	for i := range calls {
		calls[i].do(p, now)
	}
}

// refuseUnread fails calls for which a read has failed. If the cause is damage, each call is tried by itself,
// so that only those about damaged records fail.
func (p *partitionRunner) refuseUnread(calls []call, err error, now int64) {
	if errors.Is(err, store.ErrDamaged) && len(calls) > 1 {
		for i := range calls {
			p.serveCalls(calls[i:i+1], now)
		}
		return
	}
	p.reads.failed(err)
	for i := range calls {
		calls[i].fail(unread(err))
	}
}

// dataLoss returns the error for a request about a damaged part of the store. Nothing was done.
func dataLoss(err error) error {
	return carillon.Errorf(carillon.DataLoss, "", "the store has lost what this is about: %w", err)
}

// unread returns the error for a call that was not begun because what it needs could not be read.
func unread(err error) error {
	if errors.Is(err, store.ErrDamaged) {
		return dataLoss(err)
	}
	e := carillon.Errorf(carillon.Unavailable, "", "the store could not be read: %w", err)
	e.Err = fmt.Errorf("%w: %w", message.ErrNotTaken, err)
	return e
}

// outcome is the result of a call.
type outcome[T any] struct {
	value T
	err   error
}

// stage decides a race: either the round begins the call or the caller withdraws it, never both.
type stage struct{ is atomic.Int32 }

const (
	waits int32 = iota
	began
	withdrawn
)

// begin reports whether the call may be run.
func (s *stage) begin() bool { return s.is.CompareAndSwap(waits, began) }

// withdraw reports whether the call has not been run and never will be.
func (s *stage) withdraw() bool {
	s.is.CompareAndSwap(waits, withdrawn)
	return s.is.Load() == withdrawn
}

// waitingCall is a call whose caller waits.
type waitingCall[T any] struct {
	stage
	done chan outcome[T]
}

// inRound runs f in a round of the partition and waits until its outcome is durable. If ctx ends before that
// round, nothing is done. If ctx ends later, the outcome is unknown.
func inRound[T any](ctx context.Context, p *partitionRunner, c call,
	f func(p *partitionRunner, now int64) (T, error)) (T, error) {
	return inRoundSeq(ctx, p, c, func(p *partitionRunner, now int64) (T, uint64, error) {
		value, err := f(p, now)
		return value, p.m.After(), err
	})
}

// inRoundSeq is inRound for an f that returns which batch must be durable.
func inRoundSeq[T any](ctx context.Context, p *partitionRunner, c call,
	f func(p *partitionRunner, now int64) (T, uint64, error)) (T, error) {
	var zero T
	a := &waitingCall[T]{done: make(chan outcome[T], 1)}
	if !a.send(ctx, p, c, f) {
		return zero, p.e.errStopping()
	}
	return a.wait(ctx)
}

// wait returns the outcome of the call, once it has one or ctx has ended.
func (a *waitingCall[T]) wait(ctx context.Context) (value T, err error) {
	select {
	case o := <-a.done:
		if o.err != nil {
			return value, o.err
		}
		return o.value, nil
	case <-ctx.Done():
		if a.withdraw() {
			return value, tooLate(ctx)
		}
		return value, ended(ctx)
	}
}

// send puts the call into the partition's mailbox. It returns false, and does nothing, if the engine has
// ended.
func (a *waitingCall[T]) send(ctx context.Context, p *partitionRunner, c call,
	f func(p *partitionRunner, now int64) (T, uint64, error)) bool {
	final, by := !c.relayed, c.audit // not c itself, which would have to move to the heap
	c.do = func(p *partitionRunner, now int64) {
		if overdue(ctx) || !a.begin() {
			a.withdraw()
			a.done <- outcome[T]{err: tooLate(ctx)}
			return
		}
		p.m.Begin()
		value, seq, err := f(p, now)
		if err == nil {
			seq = max(seq, record(p, by, now))
		}
		p.replies.add(answer{seq: seq, final: final, answer: func(failed error) {
			if failed != nil {
				err = failed
			}
			if err == nil {
				by.Stored()
			}
			a.done <- outcome[T]{value, err}
		}})
	}
	c.fail = func(err error) { a.done <- outcome[T]{err: err} }
	p.e.cfg.Enter(ctx, p.number, c.of)
	return p.box.put(func(m *mail) { m.calls = append(m.calls, c) })
}

// overdue reports whether ctx has ended, or would have if its timer had fired in time: after the whole
// process was suspended a round may run before the timer.
func overdue(ctx context.Context) bool {
	if ctx.Err() != nil {
		return true
	}
	deadline, bounded := ctx.Deadline()
	return bounded && !time.Now().Before(deadline)
}

// ended returns the error for a call whose caller stopped waiting after it was begun.
func ended(ctx context.Context) error {
	err := over(ctx, "before its outcome was durable")
	err.Unknown = true
	return err
}

// tooLate returns the error for a call whose ctx ended before anything was done.
func tooLate(ctx context.Context) error { return over(ctx, "before it was begun: nothing was done") }

func over(ctx context.Context, when string) *carillon.Error {
	kind, why := carillon.DeadlineExceeded, "the call's deadline passed "
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.DeadlineExceeded) &&
		!errors.Is(ctx.Err(), context.DeadlineExceeded) {
		kind, why = carillon.Canceled, "the call was cancelled "
	}
	return &carillon.Error{Kind: kind, Message: why + when, Err: ctx.Err()}
}

// ofJob runs f in a round of a job's partition, as inRound does. key is the caller's; f gets it with its
// namespace.
func ofJob[T any](ctx context.Context, ps *partitions, key carillon.Key, call func(carillon.Key) call,
	f func(p *partitionRunner, now int64, key carillon.Key) (T, error)) (value T, err error) {
	if err := checkKey(&key); err != nil {
		return value, err
	}
	return inRound(ctx, ps.of(key), call(key), func(p *partitionRunner, now int64) (T, error) {
		return f(p, now, key)
	})
}

// editCall returns a call that ends a job or changes what its runs do.
func editCall(k carillon.Key) call { return call{refs: []store.Ref{{Key: k}}, pending: true} }

// jobCall returns a call that needs the job.
func jobCall(k carillon.Key) call { return call{refs: []store.Ref{{Key: k}}} }

// namespaceOf returns the namespace that a caller means: an empty name is the default namespace, as in
// package client and over gRPC.
func namespaceOf(name string) string { return cmp.Or(name, carillon.DefaultNamespace) }

// checkKey fills in the namespace of a call's key, and validates the key.
func checkKey(key *carillon.Key) error {
	key.Namespace = namespaceOf(key.Namespace)
	return key.Validate()
}

// checkPrefix validates a prefix of the names of jobs that are to be deleted.
func checkPrefix(namespace, prefix string) error {
	if err := carillon.ValidateNamespace(namespace); err != nil {
		return err
	}
	if prefix == "" {
		return carillon.Errorf(carillon.InvalidArgument, "prefix",
			"it is empty, which would mean every job of the namespace")
	}
	return (&carillon.JobQuery{Namespace: namespace, Prefix: prefix}).Validate()
}
