package amqp

import (
	"testing"

	"github.com/rabbitmq/amqp091-go"
)

// TestADeliveryHasNoHeadersForTheBroker, since its dead letter has what it has.
func TestADeliveryHasNoHeadersForTheBroker(t *testing.T) {
	s := &Source{queue: "q"}
	d := s.delivery(amqp091.Delivery{Headers: amqp091.Table{"CC": []any{"other"}, "BCC": []any{"other"},
		"x-delay": int32(7), "X-Match": "any", "order": "42", "cloudEvents:id": "1"}}, new(bool))
	if len(d.Headers) != 2 || d.Header("order") != "42" || d.Header("ce-id") != "1" {
		t.Errorf("%v", d.Headers)
	}
}
