package amqp

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
)

// unsent says that nothing of a message was sent, and why.
func unsent(why error) error { return fmt.Errorf("%w: %w", broker.ErrUnsent, why) }

// refused says that a message would be refused the next time, too.
func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %w", broker.ErrRefused, fmt.Errorf(format, args...))
}

// doubtful says that the broker may have a message.
func doubtful(why error) error { return fmt.Errorf("the broker may have it: %w", why) }

// phase is how far a message has come.
type phase uint8

const (
	waiting phase = iota // nothing of it was sent
	sending              // something of it may have been sent
	settled              // done was called for it, or is about to be
)

// batch is what was handed over together. A message of it is settled once, by an answer of the broker, the
// end of its connection, or the end of ctx.
type batch struct {
	ms   []broker.Message
	done func(int, error)
	over func() // called after the last done

	mu       sync.Mutex
	phases   []phase
	open     int // messages for which done has not returned
	stop     func() bool
	channels []*channel // those that have some of it
}

func newBatch(ms []broker.Message, done func(int, error), over func()) *batch {
	return &batch{ms: ms, done: done, over: over, phases: make([]phase, len(ms)), open: len(ms)}
}

// watch ends the batch with ctx.
func (b *batch) watch(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { b.expire(context.Cause(ctx)) })
	b.mu.Lock()
	b.stop = stop
	over := b.open == 0
	b.mu.Unlock()
	if over {
		stop()
	}
}

// begin notes that a message is about to be sent; false: it is settled already.
func (b *batch) begin(i int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.phases[i] == settled {
		return false
	}
	b.phases[i] = sending
	return true
}

// isSettled reports whether a message is.
func (b *batch) isSettled(i int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.phases[i] == settled
}

// settle says what became of a message, unless that was said before.
func (b *batch) settle(i int, err error) {
	if b.claim(i) {
		b.tell(i, err)
	}
}

// claim makes the caller the one who calls done for a message; false: somebody else did.
func (b *batch) claim(i int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.phases[i] == settled {
		return false
	}
	b.phases[i] = settled
	return true
}

// tell calls done for a message that the caller has claimed.
func (b *batch) tell(i int, err error) {
	b.done(i, err)
	b.mu.Lock()
	b.open--
	last, stop := b.open == 0, b.stop
	b.mu.Unlock()
	if !last {
		return
	}
	if stop != nil {
		stop()
	}
	b.over()
}

// fail settles a message that gets no answer.
func (b *batch) fail(i int, why error) {
	b.mu.Lock()
	was := b.phases[i]
	b.phases[i] = settled
	b.mu.Unlock()
	switch was {
	case waiting:
		b.tell(i, unsent(why))
	case sending:
		b.tell(i, doubtful(why))
	}
}

var errNoAnswer = errors.New("no answer in time")

// expire settles what is left when ctx has ended.
func (b *batch) expire(cause error) {
	why := fmt.Errorf("%w: %w", errNoAnswer, cause)
	for i := range b.ms {
		b.fail(i, why)
	}
	b.nudge() // they may wait for the answer to one of these
}

// joins notes that a channel has some of the batch.
func (b *batch) joins(ch *channel) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.channels); n == 0 || b.channels[n-1] != ch {
		b.channels = append(b.channels, ch)
	}
}

// nudge wakes the channels that have some of the batch.
func (b *batch) nudge() {
	b.mu.Lock()
	channels := b.channels
	b.mu.Unlock()
	for _, ch := range channels {
		ch.nudge()
	}
}
