package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
)

// Source takes the messages of a stream of JetStream, as one of those who pull from a durable consumer, which
// it makes if there is none. Messages are acknowledged one by one. One that is handled for long is kept from
// coming again by signs of life.
type Source struct {
	client *Client // for its options
	topic  string
	group  string
	most   int

	mu       sync.Mutex
	conn     *nats.Conn // nil: none
	consumer jetstream.Consumer
	closed   bool
	lag      int64 // as of the newest message; -1: unknown
	open     map[*entry]struct{}
	ending   chan struct{} // closed by Close
	beating  sync.WaitGroup
}

// entry is a message that was received.
type entry struct {
	m    jetstream.Msg
	lost bool
}

const (
	ackWait = 30 * time.Second // after which a message comes again
	// beats is how many signs of life are given in the ackWait of the consumer that there is, but none sooner
	// than leastBeat after the one before.
	beats     = 3
	leastBeat = 100 * time.Millisecond
	// releasedAfter is when a message comes again that was released: at once it might come on the last pull of
	// this connection, which nobody reads any more, and again only after ackWait.
	releasedAfter = time.Second
	fetchMost     = 256
	pollWithin    = 5 * time.Second
	askWithin     = 10 * time.Second
)

// NewSource makes a source, which connects at the first Receive.
func NewSource(o Options, s broker.Subscription) (*Source, error) {
	c, err := New(o)
	if err != nil {
		return nil, err
	}
	return &Source{client: c, topic: s.Topic, group: s.Group, most: s.InFlight, lag: -1,
		open: map[*entry]struct{}{}, ending: make(chan struct{})}, nil
}

// Receive implements [broker.Source].
func (s *Source) Receive(ctx context.Context) ([]*broker.Delivery, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, pollWithin)
	defer cancel()
	all, err := s.fetch(within, c)
	if len(all) > 0 {
		return all, nil
	}
	if err == nil || errors.Is(err, nats.ErrTimeout) || errors.Is(err, context.DeadlineExceeded) {
		err = s.look(ctx, c)
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		err = s.why(err)
		s.drop()
		return nil, fmt.Errorf("nats: stream %s: %w", s.topic, err)
	}
	return nil, nil
}

// connect returns the consumer, on a connection of its own.
func (s *Source) connect(ctx context.Context) (jetstream.Consumer, error) {
	s.mu.Lock()
	c, closed := s.consumer, s.closed
	s.mu.Unlock()
	if closed {
		return nil, errors.New("nats: the source is closed")
	}
	if c != nil {
		return c, nil
	}
	conn, err := nats.Connect(s.client.servers, s.client.options...)
	if err != nil {
		return nil, fmt.Errorf("nats: %w", err)
	}
	js, err := jetstream.New(conn)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, askWithin)
		defer cancel()
		c, err = s.durable(ctx, js)
	}
	if err != nil {
		err = why(conn, err)
		conn.Close()
		return nil, fmt.Errorf("nats: stream %s: %w", s.topic, err)
	}
	s.mu.Lock()
	s.conn, s.consumer = conn, c
	s.mu.Unlock()
	every := max(c.CachedInfo().Config.AckWait/beats, leastBeat)
	s.beating.Go(func() { s.beat(conn, every) })
	return c, nil
}

// why is what the server has said of a request that it did not answer: it leaves those unanswered that a user
// may not make, and says so apart from them.
func why(conn *nats.Conn, err error) error {
	said := conn.LastError()
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(said, nats.ErrPermissionViolation) {
		return said
	}
	return err
}

// durable returns the durable consumer as it is, or makes it.
func (s *Source) durable(ctx context.Context, js jetstream.JetStream) (jetstream.Consumer, error) {
	c, err := js.Consumer(ctx, s.topic, s.group)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return js.CreateConsumer(ctx, s.topic, jetstream.ConsumerConfig{Durable: s.group,
			AckPolicy: jetstream.AckExplicitPolicy, DeliverPolicy: jetstream.DeliverAllPolicy, AckWait: ackWait,
			MaxAckPending: -1})
	}
	if err != nil {
		return nil, err
	}
	switch has := c.CachedInfo().Config; {
	case has.AckPolicy != jetstream.AckExplicitPolicy:
		return nil, fmt.Errorf("consumer %s is there with the acknowledgement policy %s: it must be explicit", s.group,
			has.AckPolicy)
	case has.MaxDeliver > 0: // what is released when a node leaves counts, too
		return nil, fmt.Errorf("consumer %s is there and gives a message up after %d deliveries (max_deliver): "+
			"it must be -1, or commands are lost", s.group, has.MaxDeliver)
	}
	return c, nil
}

// why is [why] of the connection that there is.
func (s *Source) why(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return err
	}
	return why(s.conn, err)
}

// drop gives up the connection. What was received on it comes again.
func (s *Source) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.conn.Close()
	}
	for e := range s.open {
		e.lost = true
	}
	s.conn, s.consumer, s.lag = nil, nil, -1
	s.open = map[*entry]struct{}{}
}

// fetch takes the messages that are there, or waits for one.
func (s *Source) fetch(ctx context.Context, c jetstream.Consumer) ([]*broker.Delivery, error) {
	got, err := c.FetchNoWait(min(fetchMost, s.most))
	if err != nil {
		return nil, err
	}
	all := s.take(got)
	if err := got.Error(); err != nil || len(all) > 0 {
		return all, err
	}
	if got, err = c.Fetch(1, jetstream.FetchContext(ctx)); err != nil {
		return nil, err
	}
	return s.take(got), got.Error()
}

// take makes deliveries of messages.
func (s *Source) take(got jetstream.MessageBatch) (all []*broker.Delivery) {
	for m := range got.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			continue // it is no message of a stream
		}
		e := &entry{m: m}
		s.mu.Lock()
		s.open[e] = struct{}{}
		s.lag = int64(meta.NumPending)
		s.mu.Unlock()
		all = append(all, s.delivery(e, meta))
	}
	return all
}

func (s *Source) delivery(e *entry, meta *jetstream.MsgMetadata) *broker.Delivery {
	d := &broker.Delivery{At: s.topic + "@" + strconv.FormatUint(meta.Sequence.Stream, 10), Data: e.m.Data(),
		Sent: meta.Timestamp,
		Begin: func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return !e.lost
		},
		Done:    func() { s.settle(e, jetstream.Msg.Ack) },
		Release: func() { s.settle(e, release) }}
	for name, values := range e.m.Headers() {
		if len(values) == 0 {
			continue
		}
		low := strings.ToLower(name)
		if low == "content-type" {
			d.ContentType = values[0]
			continue
		} else if strings.HasPrefix(low, "ce-") {
			name = low
		}
		value, err := url.PathUnescape(values[0]) // the binding percent-encodes
		if err != nil {
			value = values[0]
		}
		if !isControl(low) {
			d.Headers = append(d.Headers, broker.Header{Name: name, Value: value})
		}
	}
	return d
}

func release(m jetstream.Msg) error { return m.NakWithDelay(releasedAfter) }

// isControl reports whether a header, in lower case, told the server what to do, such as which place in its
// stream the message must get. In a dead letter it would do so again.
func isControl(name string) bool { return strings.HasPrefix(name, "nats-") }

// settle answers for a message, unless it comes again anyway. That is only written: if it does not arrive,
// the message comes again.
func (s *Source) settle(e *entry, answer func(jetstream.Msg) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !e.lost {
		delete(s.open, e)
		_ = answer(e.m)
	}
}

// beat tells the server so often that messages are being handled, as long as a connection lives.
func (s *Source) beat(conn *nats.Conn, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-s.ending:
			return
		case <-tick.C:
		}
		s.mu.Lock()
		mine := s.conn == conn
		if mine {
			for e := range s.open {
				_ = e.m.InProgress() // else it comes again
			}
		}
		s.mu.Unlock()
		if !mine {
			return
		}
	}
}

// look asks whether the consumer is there, and how much it has before it.
func (s *Source) look(ctx context.Context, c jetstream.Consumer) error {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	info, err := c.Info(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.lag = int64(info.NumPending)
	s.mu.Unlock()
	return nil
}

// Lag implements [broker.Source].
func (s *Source) Lag() (n int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lag + int64(len(s.open)), s.lag >= 0
}

// Close implements [broker.Source].
func (s *Source) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errors.New("nats: the source is closed already")
	}
	s.closed = true
	close(s.ending)
	conn := s.conn
	s.mu.Unlock()
	var err error
	if conn != nil {
		if err = conn.FlushTimeout(askWithin); err != nil {
			err = fmt.Errorf("nats: the last acknowledgements may not have arrived: %w", err)
		}
	}
	s.drop()
	s.beating.Wait()
	return errors.Join(err, s.client.Close())
}
