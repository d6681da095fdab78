package kafka

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
)

// Only what is about the topic or the record is refused. After everything else a broker is asked first.
func TestExplain(t *testing.T) {
	timeout := func(err error) error { return fmt.Errorf("%w, last err: %w", kgo.ErrRecordTimeout, err) }
	for _, test := range []struct {
		err     error
		kind    error
		reached bool
	}{
		{kerr.TopicAuthorizationFailed, broker.ErrRefused, true},
		{kerr.MessageTooLarge, broker.ErrRefused, true},
		{timeout(kerr.UnknownTopicOrPartition), broker.ErrRefused, true},
		{timeout(kerr.SaslAuthenticationFailed), broker.ErrUnsent, false},
		{kerr.SaslAuthenticationFailed, broker.ErrUnsent, false},
		{kerr.UnsupportedSaslMechanism, broker.ErrUnsent, false},
		{kerr.IllegalSaslState, broker.ErrUnsent, false},
		{timeout(kerr.UnknownServerError), broker.ErrUnsent, false},
		{kgo.ErrRecordTimeout, broker.ErrUnsent, false},
		{kgo.ErrClientClosed, broker.ErrUnsent, true},
	} {
		c := &Client{reached: true}
		l := &lane{client: c, topic: "a"}
		if err := l.explain(test.err, false); !errors.Is(err, test.kind) || c.reached != test.reached {
			t.Errorf("%v is %v, and a broker is known to be there: %v", test.err, err, c.reached)
		}
		err := l.explain(test.err, true)
		if errors.Is(err, broker.ErrRefused) || errors.Is(err, broker.ErrUnsent) {
			t.Errorf("%v in doubt is %v", test.err, err)
		}
	}
}
