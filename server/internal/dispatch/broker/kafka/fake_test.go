package kafka_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker/kafka"
)

// fake is a stand-in for a broker that answers produce requests for the topic "odd" as a test says: with an
// error's code, or nil to do what a broker does. Any other error ends the connection. It says that it takes
// all other topics.
func fake(t *testing.T, answer func() error) (address string) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "odd", "even"))
	must(t, err)
	t.Cleanup(c.Close)
	names := map[[16]byte]string{}
	for _, name := range []string{"odd", "even"} {
		names[c.TopicInfo(name).TopicID] = name
	}
	c.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		asked := request.(*kmsg.ProduceRequest)
		odd := func(topic *kmsg.ProduceRequestTopic) bool {
			return topic.Topic == "odd" || names[topic.TopicID] == "odd"
		}
		var kind *kerr.Error
		for i := range asked.Topics {
			if !odd(&asked.Topics[i]) {
				continue
			}
			err := answer()
			if kind, _ = errors.AsType[*kerr.Error](err); kind == nil {
				return nil, err, err != nil // an error ends the connection
			}
		}
		out := asked.ResponseKind().(*kmsg.ProduceResponse)
		for i := range asked.Topics {
			t := kmsg.NewProduceResponseTopic()
			t.Topic, t.TopicID = asked.Topics[i].Topic, asked.Topics[i].TopicID
			for _, p := range asked.Topics[i].Partitions {
				one := kmsg.NewProduceResponseTopicPartition()
				if one.Partition = p.Partition; odd(&asked.Topics[i]) {
					one.ErrorCode = kind.Code
				}
				t.Partitions = append(t.Partitions, one)
			}
			out.Topics = append(out.Topics, t)
		}
		return out, nil, true
	})
	return c.ListenAddrs()[0]
}

// A topic with too few replicas takes nothing, and holds up no other.
func TestTooFewReplicas(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	c := client(t, kafka.Options{Addresses: []string{fake(t, func() error {
		asked.Add(1)
		return kerr.NotEnoughReplicas
	})}})
	held := start(t.Context(), t, c, messages("odd", "a", 10))
	for range 20 {
		allDone(t, publish(t, c, messages("even", "b", 10)...))
	}
	select {
	case <-held.over:
		t.Error("the other topic was held up for as long as this one was tried")
	default:
	}
	all(t, held.wait(), broker.ErrUnsent)
	if text := held.errs[0].Error(); !strings.Contains(text, "too few replicas are in sync") {
		t.Errorf("the reason is %q", text)
	}
	if asked.Load() < 3 {
		t.Errorf("it was asked %d times", asked.Load())
	}
}

// What was written to too few replicas may be there: it is sent again until it is known.
func TestTooFewReplicasAfterwards(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	address := fake(t, func() error {
		if asked.Add(1) < 3 {
			return kerr.NotEnoughReplicasAfterAppend
		}
		return nil
	})
	ms := messages("odd", "a", 3)
	allDone(t, publish(t, client(t, kafka.Options{Addresses: []string{address}}), ms...))
	ids(t, address, "odd", idsOf(ms))
}

// Without an answer for long, what was sent is in doubt.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	o := kafka.Options{AnswerWithin: time.Second, Addresses: []string{fake(t, func() error {
		return kerr.RequestTimedOut
	})}}
	inDoubt(t, publish(t, client(t, o), messages("odd", "a", 3)...))
}

// The answer to the second sending says nothing about the first, whose answer was lost.
func TestLostBefore(t *testing.T) {
	t.Parallel()
	for _, later := range []error{kerr.NotEnoughReplicas, kerr.InvalidRecord, kerr.TopicAuthorizationFailed,
		kerr.MessageTooLarge} {
		var asked atomic.Int64
		c := client(t, kafka.Options{Addresses: []string{fake(t, func() error {
			if asked.Add(1) == 1 {
				return io.EOF
			}
			return later
		})}})
		inDoubt(t, publish(t, c, messages("odd", "a", 3)...))
		if asked.Load() < 2 {
			t.Errorf("it was sent %d times", asked.Load())
		}
		kind := broker.ErrRefused
		if errors.Is(later, kerr.NotEnoughReplicas) {
			kind = broker.ErrUnsent
		}
		all(t, publish(t, c, messages("odd", "b", 3)...), kind) // that was then
	}
}

// The answer to the second sending says nothing about the first, whose answer left open whether it was written.
// The records are not handed over again in parts.
func TestWrittenBefore(t *testing.T) {
	t.Parallel()
	for _, first := range []error{kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend, kerr.NotLeaderForPartition} {
		for _, later := range []error{kerr.MessageTooLarge, kerr.TopicAuthorizationFailed} {
			var asked atomic.Int64
			c := client(t, kafka.Options{SendWithin: patience, Addresses: []string{fake(t, func() error {
				if asked.Add(1) == 1 {
					return first
				}
				return later
			})}})
			inDoubt(t, publish(t, c, messages("odd", "a", 4)...))
			if asked.Load() != 2 {
				t.Errorf("it was sent %d times", asked.Load())
			}
		}
	}
}

// A broker that does not know what happened may have it.
func TestServerError(t *testing.T) {
	t.Parallel()
	for _, kind := range []*kerr.Error{kerr.UnknownServerError, kerr.InvalidRequiredAcks} {
		c := client(t, kafka.Options{Addresses: []string{fake(t, func() error { return kind })}})
		inDoubt(t, publish(t, c, messages("odd", "a", 3)...))
	}
}

// A topic that has taken something exists, also if a broker that starts does not know it.
func TestUnknownForAMoment(t *testing.T) {
	t.Parallel()
	var starts atomic.Bool
	o := kafka.Options{SendWithin: patience, Addresses: []string{fake(t, func() error {
		if starts.Load() {
			return kerr.UnknownTopicOrPartition
		}
		return nil
	})}}
	c := client(t, o)
	allDone(t, publish(t, c, messages("odd", "a", 1)...))
	starts.Store(true)
	all(t, publish(t, c, messages("odd", "b", 3)...), broker.ErrUnsent)
	all(t, publish(t, client(t, o), messages("odd", "c", 3)...), broker.ErrRefused)
	starts.Store(false)
	allDone(t, publish(t, c, messages("odd", "d", 3)...))
}

// What the callers have in flight may all be of one topic.
func TestMany(t *testing.T) {
	t.Parallel()
	c := client(t, kafka.Options{SendWithin: patience, Addresses: []string{fake(t, func() error { return nil })}})
	var under []*outcome
	for range 3 {
		under = append(under, start(t.Context(), t, c, messages("even", "a", 8000)))
	}
	for _, o := range under {
		allDone(t, o.wait())
	}
}

// A refusal of the topic is one, with the broker's words.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, kind := range []*kerr.Error{kerr.InvalidRecord, kerr.PolicyViolation, kerr.UnsupportedForMessageFormat} {
		c := client(t, kafka.Options{Addresses: []string{fake(t, func() error { return kind })}})
		errs := publish(t, c, messages("odd", "a", 3)...)
		all(t, errs, broker.ErrRefused)
		all(t, errs, kind)
	}
}

// A message for another kind of broker is refused, and a context that has ended sends nothing.
func TestNothingToSend(t *testing.T) {
	t.Parallel()
	c := client(t, kafka.Options{Addresses: []string{fake(t, func() error { return nil })}})
	all(t, publish(t, c, broker.Message{ID: "a"}), broker.ErrRefused)
	c.Publish(t.Context(), nil, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range start(ctx, t, c, messages("even", "a", 3)).wait() {
		if err == nil || errors.Is(err, broker.ErrRefused) {
			t.Errorf("the outcome is %v", err)
		}
	}
}

// Whenever a client is closed and whenever contexts end, each message is done once, and Close returns.
func TestCloseAnytime(t *testing.T) {
	t.Parallel()
	address := fake(t, func() error { return nil })
	for round := range 40 {
		c := client(t, kafka.Options{Addresses: []string{address}})
		ctx, cancel := context.WithCancel(t.Context())
		var under []*outcome
		var mu sync.Mutex
		var publishers sync.WaitGroup
		enough := make(chan struct{})
		for p := range 4 {
			publishers.Go(func() {
				for i := range 10 {
					topic := []string{"odd", "even", "none"}[(p+i)%3]
					o := start(ctx, t, c, messages(topic, "a", 5))
					mu.Lock()
					if under = append(under, o); len(under) == round {
						close(enough)
					}
					mu.Unlock()
				}
			})
		}
		if round > 0 {
			<-enough
		}
		if round%4 == 3 {
			cancel()
		}
		must(t, c.Close())
		publishers.Wait()
		for _, o := range under {
			o.wait()
		}
		cancel()
	}
}
