package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
)

// Client publishes to one cluster of Kafka.
type Client struct {
	options  Options
	settings []kgo.Opt
	wire     *wire
	ended    context.Context //nolint:containedctx // the client's life
	end      context.CancelFunc
	busy     sync.WaitGroup // lanes

	mu       sync.Mutex
	producer *kgo.Client // nil before the first lot
	lanes    map[string]*lane
	closed   bool
	written  map[string]bool // topics that have taken something: they exist
	reached  bool            // a broker has answered since something went wrong
	doubts   uint64          // how often something went wrong
	reaching *visit          // nil: nobody asks
}

// visit asks whether a broker answers, for all who want to know.
type visit struct {
	over chan struct{}
	err  error // when over is closed
}

// New makes a client, which connects at the first Publish.
func New(o Options) (*Client, error) {
	if err := o.fill(); err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	w := &wire{}
	settings, err := o.settings(w)
	if err == nil {
		err = kgo.ValidateOpts(settings...)
	}
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	c := &Client{options: o, settings: settings, wire: w, lanes: map[string]*lane{}, written: map[string]bool{}}
	w.ended = c.doubted
	c.ended, c.end = context.WithCancel(context.Background())
	return c, nil
}

var errClosed = fmt.Errorf("%w: the client is closed", broker.ErrUnsent)

// call is one Publish.
type call struct {
	done func(i int, err error)

	mu   sync.Mutex
	left int
	stop func() bool // ends the watch over the context; nil: there is none
}

// settled notes that one more is done.
func (p *call) settled() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left--; p.left == 0 && p.stop != nil {
		p.stop()
	}
}

// watch has f called when the context ends, unless all is done before.
func (p *call) watch(ctx context.Context, f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left > 0 {
		p.stop = context.AfterFunc(ctx, f)
	}
}

// Publish implements [broker.Client]. Messages of a topic are sent in their order.
func (c *Client) Publish(ctx context.Context, ms []broker.Message, done func(i int, err error)) {
	p := &call{done: done, left: len(ms)}
	all := make([]*entry, len(ms))
	var v verdicts
	c.mu.Lock()
	for i := range ms {
		e := &entry{call: p, i: i}
		all[i] = e
		if err := c.admit(e, &ms[i]); err != nil {
			v.add(e, err)
		}
	}
	c.mu.Unlock()
	v.tell()
	p.watch(ctx, func() { c.abandon(all, context.Cause(ctx)) })
}

// admit puts a message into its topic's lane. It is called locked.
func (c *Client) admit(e *entry, m *broker.Message) error {
	if m.To.Kafka == nil || m.To.Kafka.Topic == "" {
		return fmt.Errorf("%w: the target names no topic of Kafka", broker.ErrRefused)
	}
	if c.closed {
		return errClosed
	}
	e.record = record(m)
	l := c.lanes[e.record.Topic]
	if l == nil {
		l = &lane{client: c, topic: e.record.Topic}
	}
	if err := l.admit(e); err != nil {
		return err
	}
	if c.lanes[l.topic] == nil {
		c.lanes[l.topic] = l
		c.busy.Go(l.run)
	}
	return nil
}

// abandon ends messages whose context has ended.
func (c *Client) abandon(all []*entry, cause error) {
	var v verdicts
	c.mu.Lock()
	for _, e := range all {
		if e.state == waiting {
			v.add(e, fmt.Errorf("%w: %w", broker.ErrUnsent, cause))
			e.record = nil // its lane drops the rest of it later
		} else {
			v.add(e, fmt.Errorf("the broker may have it: %w", cause))
		}
	}
	c.mu.Unlock()
	v.tell()
}

// reach asks a broker for its name, unless one has answered since something went wrong.
func (c *Client) reach() error {
	c.mu.Lock()
	if c.reached {
		c.mu.Unlock()
		return nil
	}
	v := c.reaching
	if v != nil {
		c.mu.Unlock()
		<-v.over
		return v.err
	}
	v = &visit{over: make(chan struct{})}
	c.reaching = v
	before := c.doubts
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(c.ended, c.options.SendWithin)
	defer cancel()
	var producer *kgo.Client
	if producer, v.err = c.current(); v.err == nil {
		v.err = producer.Ping(ctx)
	}
	c.mu.Lock()
	c.reaching, c.reached = nil, v.err == nil && c.doubts == before
	c.mu.Unlock()
	close(v.over)
	return v.err
}

// current is franz-go's client, which connects when it is asked something.
func (c *Client) current() (*kgo.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	if c.producer == nil {
		producer, err := kgo.NewClient(c.settings...)
		if err != nil {
			return nil, err
		}
		c.producer = producer
	}
	return c.producer, nil
}

// renew gives up a client of franz-go's that got no producer id for good: it keeps the refusal, also when the
// user may write meanwhile. None of its records was sent.
func (c *Client) renew(old *kgo.Client) {
	c.mu.Lock()
	mine := c.producer == old
	if mine {
		c.producer = nil
	}
	c.mu.Unlock()
	if mine {
		old.Close()
	}
}

// doubted has the next lot ask first whether a broker is there.
func (c *Client) doubted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reached = false
	c.doubts++
}

// wrote reports whether a topic has taken something from this client.
func (c *Client) wrote(topic string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.written[topic]
}

// Close implements [broker.Client].
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return errors.New("kafka: the client is closed already")
	}
	c.closed = true
	producer := c.producer
	c.mu.Unlock()
	c.wire.close()
	c.end()
	if producer != nil {
		producer.Close()
	}
	c.busy.Wait()
	return nil
}
