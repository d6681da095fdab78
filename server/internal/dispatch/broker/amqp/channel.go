package amqp

import (
	"errors"
	"fmt"

	"github.com/rabbitmq/amqp091-go"
)

const (
	// window is how many messages of a channel may be unanswered.
	window = 512
	// cautious is the size from which a message that is larger than all before it is sent alone.
	cautious = 64 << 10
)

// entry is a message of a batch.
type entry struct {
	b *batch
	i int
}

// sent is a message that the broker may have.
type sent struct {
	entry
	id       string
	headers  amqp091.Table
	size     int
	answer   *amqp091.DeferredConfirmation
	returned *amqp091.Return
}

// channel sends the messages of one target. Its goroutine, run, opens a channel of the connection when there
// is something to send, and again after the broker has closed it.
type channel struct {
	link    *link
	to      target
	wake    chan struct{}
	retired chan struct{} // closed when it gives way to another

	// guarded by the client's mu
	queue []entry
	idle  bool   // nothing waits, and nothing is unanswered
	used  uint64 // when

	// of run alone
	todo    []entry
	await   []sent // in the order in which they were sent
	caution int    // see cautious; 0 after the broker closed the channel and left open whom it meant
	session
}

// session is one channel of the connection, from its opening to its end.
type session struct {
	ch       *amqp091.Channel
	closed   chan *amqp091.Error
	returns  chan amqp091.Return
	flows    chan bool
	paused   bool
	proven   bool // it has answered a message
	single   bool // what is unanswered was to be alone
	largest  int  // of the messages that were answered
	abandons int  // messages that ctx ended, and which may still be answered
}

// put appends to the queue. The client's mu is held.
func (c *channel) put(p entry) {
	c.queue, c.idle = append(c.queue, p), false
	c.link.uses++
	c.used = c.link.uses
	p.b.joins(c)
}

// nudge has run look at its queue, and at what was abandoned.
func (c *channel) nudge() {
	select {
	case c.wake <- struct{}{}:
	default: // it will look
	}
}

// run sends until the link is lost or the channel gives way.
func (c *channel) run() {
	for c.wait() {
		if err := c.open(); err != nil {
			c.failWaiting(fmt.Errorf("open a channel: %w", err))
			continue
		}
		c.serve()
	}
	select {
	case <-c.link.down:
		c.take()
		c.failWaiting(c.link.why)
	default: // it gave way, idle
	}
}

// wait waits for something to send; false: there will be nothing.
func (c *channel) wait() bool {
	for {
		select {
		case <-c.link.down:
			return false
		default:
		}
		c.take()
		if why := c.link.blocked.Load(); why != nil {
			c.failWaiting(*why)
		}
		if len(c.todo) > 0 {
			return true
		}
		c.rest()
		select {
		case <-c.wake:
		case <-c.retired:
			return false
		case <-c.link.down:
			return false
		}
	}
}

// open opens a channel that confirms what is published.
func (c *channel) open() error {
	ch, err := c.link.conn.Channel()
	if err != nil {
		return err
	}
	c.session = session{ch: ch, closed: ch.NotifyClose(make(chan *amqp091.Error, 1)),
		returns: ch.NotifyReturn(make(chan amqp091.Return, window)), flows: ch.NotifyFlow(make(chan bool, notices))}
	return ch.Confirm(false)
}

// take takes over what was queued.
func (c *channel) take() {
	mu := &c.link.c.mu
	mu.Lock()
	defer mu.Unlock()
	if len(c.todo) == 0 {
		c.todo, c.queue = c.queue, nil
		return
	}
	c.todo, c.queue = append(c.todo, c.queue...), c.queue[:0]
}

// rest notes that the channel is idle, if it is, so that it may give way to one that is waited for.
func (c *channel) rest() {
	if len(c.todo) > 0 || len(c.await) > 0 {
		return
	}
	mu := &c.link.c.mu
	mu.Lock()
	defer mu.Unlock()
	c.idle = len(c.queue) == 0
	if c.idle && len(c.link.turns) > 0 {
		c.link.admit()
	}
}

// failWaiting settles what waits to be sent.
func (c *channel) failWaiting(why error) {
	for _, p := range c.todo {
		p.b.fail(p.i, why)
	}
	c.todo = nil
}

// serve sends and hears answers until the session ends.
func (c *channel) serve() {
	for {
		c.take()
		if why := c.mayNotSend(); why != nil {
			c.failWaiting(why)
		}
		c.send()
		c.settle()
		if c.stale() {
			_ = c.ch.Close() // nobody waits for an answer of it
			return
		}
		if c.ready() {
			continue // an answer made room
		}
		c.rest()
		var answered <-chan struct{}
		if len(c.await) > 0 {
			answered = c.await[0].answer.Done()
		}
		select {
		case <-answered:
			if c.ch.IsClosed() {
				c.lost(<-c.closed)
				return
			}
		case <-c.wake:
		case active, open := <-c.flows:
			if !open {
				c.flows = nil // closed says why
			}
			c.paused = open && !active
		case reason := <-c.closed:
			c.lost(reason)
			return
		case <-c.retired:
			_ = c.ch.Close() // same
			return
		case <-c.link.down:
			c.lost(nil)
			return
		}
	}
}

// mayNotSend says why the broker wants nothing now, or nil.
func (c *channel) mayNotSend() error {
	if why := c.link.blocked.Load(); why != nil {
		return *why
	}
	if c.paused {
		return errors.New("the broker asks not to send at present (channel.flow)")
	}
	return nil
}
