package engine

import (
	"context"
	"errors"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store"
)

// serveCalls runs calls once what they need is in memory.
func (p *owned) serveCalls(calls []call, now int64) {
	if len(calls) == 0 {
		return
	}
	var refs []store.Ref
	var live []carillon.RunIdentity
	for i := range calls {
		refs = append(refs, calls[i].refs...)
		live = append(live, calls[i].live...)
	}
	err := p.bring(refs, live, now)
	if err == nil {
		err = p.bringPending(calls, now)
	}
	if err != nil {
		p.readFailed(err)
		for i := range calls {
			calls[i].fail(carillon.Errorf(carillon.Unavailable, "", "the store could not be read: %w", err))
		}
		return
	}
	for i := range calls {
		calls[i].do(p, now)
	}
}

// outcome is what a call came to.
type outcome[T any] struct {
	value T
	err   error
}

// ask runs f in a round of the partition and waits until its outcome is durable. If ctx ends first the outcome is not
// known.
func ask[T any](ctx context.Context, p *owned, c call, f func(p *owned, now int64) (T, error)) (T, error) {
	return askSeq(ctx, p, c, func(p *owned, now int64) (T, uint64, error) {
		value, err := f(p, now)
		return value, p.m.After(), err
	})
}

// askSeq is ask for an f that knows itself which batch must be durable.
func askSeq[T any](ctx context.Context, p *owned, c call, f func(p *owned, now int64) (T, uint64, error)) (T, error) {
	done := make(chan outcome[T], 1)
	c.do = func(p *owned, now int64) {
		p.m.Begin()
		value, seq, err := f(p, now)
		p.reply(seq, func(failed error) {
			if failed != nil {
				err = failed
			}
			done <- outcome[T]{value, err}
		})
	}
	c.fail = func(err error) { done <- outcome[T]{err: err} }
	var zero T
	if !p.box.put(func(m *mail) { m.calls = append(m.calls, c) }) {
		return zero, errStopping()
	}
	select {
	case o := <-done:
		if o.err != nil {
			return zero, o.err
		}
		return o.value, nil
	case <-ctx.Done():
		return zero, ended(ctx)
	}
}

// ended is the error of a call whose caller stopped waiting.
func ended(ctx context.Context) error {
	kind, why := carillon.Canceled, "the call was cancelled before its outcome was durable"
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		kind, why = carillon.DeadlineExceeded, "the call's deadline passed before its outcome was durable"
	}
	return &carillon.Error{Kind: kind, Message: why, Unknown: true, Err: ctx.Err()}
}

// bringPending reads the pending runs of jobs into memory which calls must reach: an operation that ends or changes what they
// do must find those, too, that an earlier owner handed out.
func (p *owned) bringPending(calls []call, now int64) error {
	for i := range calls {
		for _, ref := range calls[i].refs {
			for last := uint64(0); calls[i].pending; {
				refs := p.m.Absent(ref.Key, last, pendingAtOnce)
				if len(refs) == 0 {
					break
				}
				records, err := p.shard.Read(p.ctx, refs)
				if err != nil {
					return err
				}
				p.m.Load(records, now)
				p.touched = append(p.touched, refs...)
				last = refs[len(refs)-1].Seq
			}
		}
	}
	return nil
}

// pendingAtOnce is how many records are read at a time in search of pending runs.
const pendingAtOnce = 512

// editCall is a call that ends a job or changes what its runs do.
func editCall(k carillon.Key) call { return call{refs: []store.Ref{{Key: k}}, pending: true} }

// jobCall is a call that needs the job.
func jobCall(k carillon.Key) call { return call{refs: []store.Ref{{Key: k}}} }
