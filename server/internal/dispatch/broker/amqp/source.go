package amqp

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
)

// Source takes the messages of a queue. Each is acknowledged by itself. The broker sends at most as many as
// may be without an acknowledgement (prefetch).
type Source struct {
	client *Client // for its options; it publishes nothing
	queue  string
	most   int

	mu      sync.Mutex
	conn    *amqp091.Connection // nil: none
	channel *amqp091.Channel
	inbox   *inbox // of the connection
	lost    *bool  // of the messages of the connection
	open    int    // messages that are not acknowledged
	ready   int    // in the queue as of the last look; -1: unknown
	looked  time.Time
	closed  bool
}

const (
	maxPrefetch = 1<<16 - 1
	lookEvery   = 5 * time.Second
	mostAtOnce  = 256
)

// NewSource makes a source, which connects at the first Receive.
func NewSource(o Options, s broker.Subscription) (*Source, error) {
	c, err := New(o)
	if err != nil {
		return nil, err
	}
	return &Source{client: c, queue: s.Topic, most: min(s.InFlight, maxPrefetch), ready: -1}, nil
}

// Receive implements [broker.Source].
func (s *Source) Receive(ctx context.Context) (all []*broker.Delivery, err error) {
	inbox, lost, err := s.connect()
	if err != nil {
		return nil, fmt.Errorf("amqp: queue %q: %w", s.queue, err)
	}
	if err := s.look(); err != nil {
		s.drop()
		return nil, fmt.Errorf("amqp: queue %q: %w", s.queue, err)
	}
	quiet := time.NewTimer(lookEvery)
	defer quiet.Stop()
	select {
	case <-inbox.came:
		for _, m := range inbox.take(mostAtOnce) {
			all = append(all, s.delivery(m, lost))
		}
		return all, nil
	case <-inbox.ended: // what is still in it comes again
		s.drop()
		return nil, fmt.Errorf("amqp: queue %q: the broker has ended the connection, or the queue is gone", s.queue)
	case <-quiet.C: // the broker has answered look, and does so again when this is called again
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// connect returns the messages of the queue, on a connection of its own. Only Receive calls it, so there is
// one at a time; s.mu is not held while the broker is waited for.
func (s *Source) connect() (*inbox, *bool, error) {
	s.mu.Lock()
	conn, box, lost, closed := s.conn, s.inbox, s.lost, s.closed
	s.mu.Unlock()
	switch {
	case closed:
		return nil, nil, errSourceClosed
	case conn != nil:
		return box, lost, nil
	}
	l := newLink(s.client)
	if err := s.client.connect(l); err != nil {
		return nil, nil, err
	}
	ch, err := l.conn.Channel()
	if err == nil {
		err = ch.Qos(s.most, 0, false)
	}
	var messages <-chan amqp091.Delivery
	if err == nil {
		messages, err = ch.Consume(s.queue, "", false, false, false, false, nil)
	}
	if err == nil {
		box = gather(messages)
		s.mu.Lock()
		if closed = s.closed; !closed {
			lost = new(bool)
			s.conn, s.channel, s.inbox, s.lost, s.ready = l.conn, ch, box, lost, -1
		}
		s.mu.Unlock()
		if !closed {
			return box, lost, nil
		}
		err = errSourceClosed
	}
	return nil, nil, errors.Join(err, farewellTo(l.conn, box))
}

var errSourceClosed = errors.New("the source is closed")

// drop gives up the connection. What was received on it comes again.
func (s *Source) drop() {
	s.mu.Lock()
	conn, box := s.conn, s.inbox
	if conn != nil {
		*s.lost = true
	}
	s.conn, s.channel, s.inbox, s.open, s.ready = nil, nil, nil, 0, -1
	s.mu.Unlock()
	if conn != nil {
		_ = farewellTo(conn, box) // it may be gone
	}
}

// farewellTo closes a connection. box may be nil.
func farewellTo(conn *amqp091.Connection, box *inbox) error {
	err := conn.CloseDeadline(time.Now().Add(farewell))
	if box != nil {
		<-box.ended // the library closes the channel of messages once the connection is closed
	}
	return err
}

// look asks, now and then, how many messages wait in the queue.
func (s *Source) look() error {
	s.mu.Lock()
	ch, due := s.channel, time.Since(s.looked) >= lookEvery
	s.mu.Unlock()
	switch {
	case ch == nil:
		return errSourceClosed
	case !due:
		return nil
	}
	q, err := ch.QueueDeclarePassive(s.queue, true, false, false, false, nil)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready, s.looked = q.Messages, time.Now()
	return nil
}

func (s *Source) delivery(m amqp091.Delivery, lost *bool) *broker.Delivery {
	s.mu.Lock()
	s.open++
	s.mu.Unlock()
	d := &broker.Delivery{At: s.queue + "@" + strconv.FormatUint(m.DeliveryTag, 10), ContentType: m.ContentType,
		Data: m.Body, Sent: m.Timestamp,
		Begin: func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return !*lost
		},
		Done:    func() { s.settle(lost, func() error { return m.Ack(false) }) },
		Release: func() { s.settle(lost, func() error { return m.Nack(false, true) }) }}
	if m.MessageId != "" {
		d.At = s.queue + "/" + m.MessageId
	}
	for name, value := range m.Headers {
		if isControl(name) {
			continue
		}
		text := textOf(value)
		for _, prefix := range []string{bound, "cloudEvents_"} {
			if attribute, of := strings.CutPrefix(name, prefix); of {
				name = neutral + strings.ToLower(attribute)
			}
		}
		d.Headers = append(d.Headers, broker.Header{Name: name, Value: text})
	}
	return d
}

// textOf is a value of a header as CloudEvents writes it. Other libraries send times, bytes and numbers as
// such.
func textOf(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	}
	return fmt.Sprint(value)
}

// isControl reports whether a header told the broker, or one of its plugins, what to do: to which other
// queues the message goes, or when. In a dead letter it would do so again.
func isControl(name string) bool {
	return name == "CC" || name == "BCC" || strings.HasPrefix(strings.ToLower(name), "x-")
}

// settle answers for a message, unless it comes again anyway. If the answer does not arrive, it does, too.
func (s *Source) settle(lost *bool, answer func() error) {
	s.mu.Lock()
	if *lost {
		s.mu.Unlock()
		return
	}
	s.open--
	s.mu.Unlock()
	_ = answer()
}

// Lag implements [broker.Source].
func (s *Source) Lag() (n int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = int64(s.ready + s.open)
	if s.inbox != nil {
		n += int64(s.inbox.len())
	}
	return n, s.ready >= 0
}

// Close implements [broker.Source].
func (s *Source) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errors.New("amqp: the source is closed already")
	}
	s.closed = true
	s.mu.Unlock()
	s.drop() // acknowledgements were written before
	return s.client.Close()
}
