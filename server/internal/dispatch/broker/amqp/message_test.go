package amqp

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
)

// What would end the connection, or cannot be carried, is refused, by the field's name.
func TestMessagesRefused(t *testing.T) {
	long := strings.Repeat("x", 256)
	for _, c := range []struct {
		says   string
		change func(*broker.Message)
	}{
		{"target.amqp.exchange has 256 bytes", func(m *broker.Message) { m.To.AMQP.Exchange = long }},
		{"target.amqp.routing_key has 256 bytes", func(m *broker.Message) { m.To.AMQP.RoutingKey = long }},
		{"content_type has 256 bytes", func(m *broker.Message) { m.ContentType = long }},
		{"the run's id has 256 bytes", func(m *broker.Message) { m.ID = long }},
		{"the name of header \"cloudEvents:xx", func(m *broker.Message) { m.Headers[0].Name = "ce-" + long[:250] }},
		{"the payload has 11 bytes", func(m *broker.Message) { m.Data = make([]byte, 11) }},
		{"not of kind amqp", func(m *broker.Message) { m.To = carillon.HTTP("http://a") }},
	} {
		m := message("e", "k", "id", 10)
		c.change(&m)
		err := checkMessage(&m, 10)
		want(t, []error{err}, kinds{refused: 1})
		says(t, err, c.says)
	}
	m := message(long[:255], long[:255], long[:255], 10)
	if err := checkMessage(&m, 10); err != nil {
		t.Error(err)
	}
	m.Headers = []broker.Header{{Name: "ce-type", Value: long}, {Name: "ce-time", Value: "noon"}}
	if p := publishing(&m); p.Type != "" || !p.Timestamp.IsZero() || p.Headers["cloudEvents:type"] != long {
		t.Errorf("%+v: properties that cannot be are left out, and the headers have them", p)
	}
}

// headBytes is never less than what is written, and little more.
func TestHeadBytes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		m := message("", "q", strings.Repeat("i", random.IntN(256)), 0)
		m.ContentType = strings.Repeat("c", random.IntN(256))
		for i := range random.IntN(20) {
			m.Headers = append(m.Headers, broker.Header{Name: fmt.Sprint(i, strings.Repeat("n", random.IntN(200))),
				Value: strings.Repeat("v", random.IntN(2000))})
		}
		m.Headers = append(m.Headers, broker.Header{Name: "ce-type", Value: strings.Repeat("t", random.IntN(300))},
			broker.Header{Name: "ce-time", Value: time.Now().Format(time.RFC3339)})
		p := publishing(&m)
		var text int
		for name, value := range p.Headers {
			text += 1 + len(name) + 1 + 4 + len(value.(string))
		}
		exact := 8 + 14 + text + 4 + 3*1 + len(p.ContentType) + len(p.MessageId) + len(p.Type) + 1 + 8
		if n := headBytes(&p); n < exact || n > exact+64 {
			t.Fatalf("headBytes says %d, it is %d", n, exact)
		}
	}
}
