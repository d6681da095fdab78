package amqp

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
)

// Client publishes to one broker. It connects when it is first used, and again after a connection is lost and
// there is something to publish. It has several connections while one has too few channels.
type Client struct {
	options      Options
	writeTimeout time.Duration
	spareAfter   time.Duration
	ctx          context.Context // of the client's life
	cancel       context.CancelFunc
	first        atomic.Int32   // of the addresses to try
	running      sync.WaitGroup // links
	batches      sync.WaitGroup

	mu     sync.Mutex // guards also what is said to be so in link and channel
	closed bool
	links  []*link     // may be connecting
	grower *time.Timer // nil: no target waits for a channel
}

var _ broker.Client = (*Client)(nil)

// New makes a client, which does nothing before it is used.
func New(o Options) (*Client, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	c := &Client{options: o, writeTimeout: writeTimeout, spareAfter: spareAfter}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

var (
	errClosed = errors.New("the client is closed")
	errEnded  = errors.New("ctx has ended")
)

// Publish implements [broker.Client]. It waits for nothing. Messages of one exchange and routing key are sent
// in the order in which they are given. A payload must stay as it is even after ctx has ended.
func (c *Client) Publish(ctx context.Context, ms []broker.Message, done func(i int, err error)) {
	if len(ms) == 0 {
		return
	}
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.batches.Add(1)
	}
	c.mu.Unlock()
	over := c.batches.Done
	if closed {
		over = func() {}
	}
	b := newBatch(ms, done, over)
	switch {
	case closed:
		b.failAll(errClosed)
	case ctx.Err() != nil:
		b.failAll(errors.Join(errEnded, context.Cause(ctx)))
	default:
		c.handOver(b)
		b.watch(ctx)
	}
}

// failAll settles all messages of a batch of which nothing was sent.
func (b *batch) failAll(why error) {
	for i := range b.ms {
		b.fail(i, why)
	}
}

// handOver gives the messages to their channels.
func (c *Client) handOver(b *batch) {
	wrong := make([]error, len(b.ms))
	for i := range b.ms {
		wrong[i] = checkMessage(&b.ms[i], c.options.MaxMessageBytes)
	}
	c.mu.Lock()
	for i := range b.ms {
		if wrong[i] != nil {
			continue
		}
		if err := c.queue(b, i); err != nil {
			wrong[i] = unsent(err)
		}
	}
	c.mu.Unlock()
	b.nudge()
	for i, err := range wrong {
		if err != nil {
			b.settle(i, err)
		}
	}
}

// queue puts a message into the queue of its channel, on a connection, which is made if there is none. c.mu
// is held.
func (c *Client) queue(b *batch, i int) error {
	if c.closed {
		return errClosed
	}
	l := c.linkFor(targetOf(&b.ms[i]))
	if why := l.blocked.Load(); why != nil {
		return *why
	}
	l.queue(entry{b, i})
	return nil
}

// Close implements [broker.Client]. It waits for no answers: what is under way may be there.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	if c.grower != nil {
		c.grower.Stop()
	}
	c.mu.Unlock()
	c.cancel()
	c.running.Wait()
	c.batches.Wait()
	return nil
}
