// Package joined lets callers that wait at the same time share one request to a server.
package joined

import (
	"context"
	"sync"
)

// Call is a request that several callers share. Who comes while one is under way waits for the next, which
// begins after all of those that share it have come: so each gets an answer that is newer than its question.
//
//	caller ──┐                    ┌── request 2 ──▶ answers both
//	caller ──┴─ wait for the next ┘
//	            request 1 is under way
type Call[T any] struct {
	do     func() (T, error)
	asking sync.WaitGroup

	mu   sync.Mutex
	next *request[T] // the one that has not begun
	busy bool
}

// request is one request.
type request[T any] struct {
	done   chan struct{}
	answer T
	err    error
}

// New returns a call that asks by do. do must end by itself.
func New[T any](do func() (T, error)) *Call[T] { return &Call[T]{do: do} }

// Wait returns the answer of a request that begins after the call.
func (c *Call[T]) Wait(ctx context.Context) (answer T, err error) {
	r := c.join()
	select {
	case <-r.done:
		return r.answer, r.err
	case <-ctx.Done():
		return answer, ctx.Err()
	}
}

// Close waits for the request that is under way. There must be no caller any more.
func (c *Call[T]) Close() { c.asking.Wait() }

// join returns the request that has not begun.
func (c *Call[T]) join() *request[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = &request[T]{done: make(chan struct{})}
	}
	if !c.busy {
		c.busy = true
		c.asking.Go(c.run)
	}
	return c.next
}

// run does one request after the other while somebody waits.
func (c *Call[T]) run() {
	for {
		c.mu.Lock()
		r := c.next
		c.next = nil
		c.busy = r != nil
		c.mu.Unlock()
		if r == nil {
			return
		}
		r.answer, r.err = c.do()
		close(r.done)
	}
}
