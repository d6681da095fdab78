package amqp

import (
	"testing"
	"time"

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

// TestHeadersOfOtherTypesAreText, as CloudEvents writes their values.
func TestHeadersOfOtherTypesAreText(t *testing.T) {
	at := time.Date(2030, 1, 31, 12, 0, 0, 0, time.FixedZone("", 3600))
	s := &Source{queue: "q"}
	d := s.delivery(amqp091.Delivery{Headers: amqp091.Table{"cloudEvents:time": at, "cloudEvents:id": []byte("a"),
		"cloudEvents:ifgeneration": int64(3), "cloudEvents:flag": true}}, new(bool))
	for name, want := range map[string]string{"ce-time": "2030-01-31T11:00:00Z", "ce-id": "a", "ce-ifgeneration": "3",
		"ce-flag": "true"} {
		if got := d.Header(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}
