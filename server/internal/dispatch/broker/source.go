package broker

import (
	"context"
	"time"
)

// Source takes the messages of one topic of a broker, as a member of a group whose members share them. It
// connects by itself, and again after the broker was away.
type Source interface {
	// Receive waits for messages, and returns them in the order in which they are to be handled; or none, if
	// there were none for some seconds and the broker has answered meanwhile; or an error: that of ctx, or why
	// there are none at present, in which case it can be called again after a pause. It is called from one
	// goroutine. Messages that were received and are not acknowledged are bounded by the caller, but for those
	// of one call.
	Receive(ctx context.Context) ([]*Delivery, error)
	// Lag returns how many messages the topic has that nobody of the group has acknowledged, as far as this
	// member knows: of a topic whose partitions are shared out, those of its own; where the broker counts only
	// what waits there, that and what this member has. ok is false if it does not know.
	Lag() (n int64, ok bool)
	// Close ends the membership. Acknowledgements that were given reach the broker first, if it is there; all
	// other messages come again, here or elsewhere.
	Close() error
}

// Delivery is a message that was received.
type Delivery struct {
	At          string    // where it was, for people and for what is told of it, such as "orders/3@17"
	Key         string    // of a record of Kafka; otherwise ""
	Headers     []Header  // names of CloudEvents attributes begin with "ce-", whatever the broker's binding says
	ContentType string    // "" if there is none
	Data        []byte    // its content
	Sent        time.Time // when the broker got it; zero: it does not say

	// The functions may be called from any goroutine. They do not wait for an answer of the broker.

	// Begin says that it is being handled, before each try. It returns false if the message is to be left
	// alone: the broker has given it to somebody else of the group, will do so, or gives it to this one again.
	Begin func() bool
	// Done acknowledges it. If the acknowledgement does not reach the broker, the message comes again.
	Done func()
	// Release says that it is not handled any more, and was not acknowledged: it comes again.
	Release func()
}

// Header returns the value of a header; "" if there is none.
func (d *Delivery) Header(name string) string {
	for _, h := range d.Headers {
		if h.Name == name {
			return h.Value
		}
	}
	return ""
}

// Subscription says which messages a source takes.
type Subscription struct {
	Topic    string // of Kafka; the queue of AMQP, the stream of NATS or Redis
	Group    string // of the consumers that share them; "" for AMQP
	InFlight int    // the most messages that are not acknowledged, at least 1

	// Bounds of what is received after a record that is not acknowledged, in a partition of Kafka: for how long
	// after that record was received, and how many records. 0: without a bound. Other kinds have none.
	Ahead     time.Duration
	MostAhead int
}

// NewSource makes a source of one kind. An error names the setting at fault. It must not connect.
type NewSource func(Settings, Subscription) (Source, error)
