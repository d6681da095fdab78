package amqp

import (
	"fmt"
	"strings"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
)

// target is where a message goes.
type target struct{ exchange, key string }

func targetOf(m *broker.Message) target { return target{m.To.AMQP.Exchange, m.To.AMQP.RoutingKey} }

func (t target) String() string {
	if t.exchange == "" {
		return fmt.Sprintf("queue %q", t.key)
	}
	return fmt.Sprintf("exchange %q, routing key %q", t.exchange, t.key)
}

const (
	// maxShort is how long a short string of AMQP may be.
	maxShort = 255
	// neutral begins the names of the CloudEvents attributes in a broker.Message, and bound in one of AMQP.
	neutral, bound = "ce-", "cloudEvents:"
)

// checkMessage refuses what no AMQP broker can carry, and payloads over most bytes.
func checkMessage(m *broker.Message, most int) error {
	if m.To.AMQP == nil {
		return refused("the target is not of kind amqp")
	}
	for _, f := range [...]struct{ name, value string }{
		{"target.amqp.exchange", m.To.AMQP.Exchange}, {"target.amqp.routing_key", m.To.AMQP.RoutingKey},
		{"content_type", m.ContentType}, {"the run's id", m.ID},
	} {
		if len(f.value) > maxShort {
			return refused("%s has %d bytes; AMQP carries at most %d", f.name, len(f.value), maxShort)
		}
	}
	for _, h := range m.Headers {
		if name := headerName(h.Name); len(name) > maxShort {
			return refused("the name of header %.40q… has %d bytes; AMQP carries at most %d",
				name, len(name), maxShort)
		}
	}
	if len(m.Data) > most {
		return refused("the payload has %d bytes; the broker's max_message_bytes is %d", len(m.Data), most)
	}
	return nil
}

// headerName is a header's name in AMQP. There is no binding of CloudEvents to AMQP 0-9-1; the names are
// those of the binding to AMQP 1.0.
func headerName(name string) string {
	if attribute, is := strings.CutPrefix(name, neutral); is {
		return bound + attribute
	}
	return name
}

// publishing is the form of a message on the wire. Properties repeat what a header says, for consumers that
// know no CloudEvents.
func publishing(m *broker.Message) amqp091.Publishing {
	p := amqp091.Publishing{Headers: make(amqp091.Table, len(m.Headers)), ContentType: m.ContentType,
		DeliveryMode: amqp091.Persistent, MessageId: m.ID, Body: m.Data}
	for _, h := range m.Headers {
		p.Headers[headerName(h.Name)] = h.Value
		switch h.Name {
		case neutral + "type":
			if len(h.Value) <= maxShort {
				p.Type = h.Value
			}
		case neutral + "time":
			if at, err := time.Parse(time.RFC3339Nano, h.Value); err == nil {
				p.Timestamp = at // in whole seconds; the header has the rest
			}
		}
	}
	return p
}

// headBytes is how long the frame of a message's properties and headers is, at most.
func headBytes(p *amqp091.Publishing) int {
	const fixed = 64 // the frame, its flags and lengths, delivery mode, timestamp
	n := fixed + len(p.ContentType) + len(p.MessageId) + len(p.Type)
	for name, value := range p.Headers {
		text, _ := value.(string) // all are
		n += len(name) + len(text) + 6
	}
	return n
}

// isReturnOf reports whether the broker has given back this message: the id is that of the run, and the
// headers tell its attempts apart. The broker may have added some.
func isReturnOf(r *amqp091.Return, s *sent) bool {
	for name, value := range s.headers {
		if r.Headers[name] != value {
			return false
		}
	}
	return r.MessageId == s.id
}
