package ingest_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rabbitmq/amqp091-go"
	"github.com/redis/rueidis"
	"github.com/twmb/franz-go/pkg/kgo"
)

// readBare reads and acknowledges n messages of a topic by the client's library alone, as many under way at a
// time as an ingest has.
func (k *kind) readBare(t *testing.T, topic string, n int) {
	t.Helper()
	read := map[string]func(*testing.T, string, string, int) error{"kafka": bareKafka, "redis": bareRedis,
		"amqp": bareRabbitMQ, "nats": bareNATS}[k.settings.Kind]
	if err := read(t, k.settings.Addresses[0], topic, n); err != nil {
		t.Fatal(err)
	}
}

func bareKafka(t *testing.T, address, topic string, n int) error {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumerGroup("bare"), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AutoCommitMarks())
	if err != nil {
		return err
	}
	defer c.Close()
	for n > 0 {
		got := c.PollRecords(t.Context(), 500)
		if err := got.Err(); err != nil {
			return err
		}
		c.MarkCommitRecords(got.Records()...)
		n -= got.NumRecords()
	}
	return c.CommitMarkedOffsets(t.Context())
}

func bareRedis(t *testing.T, address, stream string, n int) error {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, DisableCache: true})
	if err != nil {
		return err
	}
	defer c.Close()
	ctx := t.Context()
	if err := c.Do(ctx, c.B().XgroupCreate().Key(stream).Group("bare").Id("0").Build()).Error(); err != nil {
		return err
	}
	for n > 0 {
		got, err := c.Do(ctx, c.B().Xreadgroup().Group("bare", "a").Count(512).Streams().Key(stream).Id(">").
			Build()).AsXRead()
		if err != nil {
			return err
		}
		var ids []string
		for _, e := range got[stream] {
			ids = append(ids, e.ID)
		}
		if err := c.Do(ctx, c.B().Xack().Key(stream).Group("bare").Id(ids...).Build()).Error(); err != nil {
			return err
		}
		n -= len(ids)
	}
	return nil
}

func bareRabbitMQ(t *testing.T, address, queue string, n int) error {
	t.Helper()
	conn, err := amqp091.Dial("amqp://guest:guest@" + address + "/")
	if err != nil {
		return err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := ch.Qos(1024, 0, false); err != nil {
		return err
	}
	all, err := ch.ConsumeWithContext(t.Context(), queue, "bare", false, false, false, false, nil)
	if err != nil {
		return err
	}
	for range n {
		m, ok := <-all
		if !ok {
			return amqp091.ErrClosed
		}
		if err := m.Ack(false); err != nil {
			return err
		}
	}
	return nil
}

func bareNATS(t *testing.T, address, stream string, n int) error {
	t.Helper()
	conn, err := nats.Connect("nats://" + address)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	c, err := js.CreateConsumer(t.Context(), stream, jetstream.ConsumerConfig{Durable: "bare",
		AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: -1})
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	left := n
	consuming, err := c.Consume(func(m jetstream.Msg) {
		err := m.Ack()
		if left--; err != nil || left == 0 {
			select {
			case done <- err:
			case <-t.Context().Done():
			}
		}
	}, jetstream.PullMaxMessages(1024))
	if err != nil {
		return err
	}
	defer consuming.Stop()
	select {
	case err := <-done:
		return err
	case <-t.Context().Done():
		return context.Cause(t.Context())
	}
}
