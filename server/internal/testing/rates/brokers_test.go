package rates

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rabbitmq/amqp091-go"
	"github.com/redis/rueidis"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// running is a broker that is measured.
type running struct {
	name     string
	pid      int
	settings string // of the file of brokers
	target   carillon.Target
	held     func(ctx context.Context) (int64, error) // messages that it has
	empty    func(ctx context.Context) error          // takes them away, if that is needed
	publish  publish                                  // with the library alone
}

// publish sends n messages, each when it is due, with at most -in-flight unacknowledged, and returns when all are
// acknowledged. acked is called for each when it is, from any goroutine.
type publish func(ctx context.Context, n int, due func(i int) time.Time, acked func(i int)) error

// brokers start the brokers, by the kind of target.
var brokers = map[string]func(*testing.T) running{"kafka": startKafka, "amqp": startAMQP, "nats": startNATS,
	"redis": startRedis}

func keep(context.Context) error { return nil }

// startKafka starts one broker, with a topic of four partitions.
func startKafka(t *testing.T) running {
	certificate, key, _ := realserver.Authority(t)
	k := realserver.NewKafka(t, certificate, key)
	k.Up(t)
	const partitions = 4
	k.Topic(t, topic, partitions)
	c, err := kgo.NewClient(kgo.SeedBrokers(k.Address()), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0))
	must(t, err)
	t.Cleanup(c.Close)
	return running{name: "Kafka", pid: k.PID(),
		settings: fmt.Sprintf("    kind: kafka\n    addresses: [%q]\n", k.Address()),
		target:   carillon.Target{Kafka: &carillon.KafkaTarget{Cluster: "measured", Topic: topic}},
		held: func(ctx context.Context) (int64, error) {
			ask := kmsg.NewPtrListOffsetsRequest()
			ask.ReplicaID = -1
			of := kmsg.NewListOffsetsRequestTopic()
			of.Topic = topic
			for p := range int32(partitions) {
				one := kmsg.NewListOffsetsRequestTopicPartition()
				one.Partition, one.Timestamp = p, -1
				of.Partitions = append(of.Partitions, one)
			}
			ask.Topics = append(ask.Topics, of)
			sum := int64(0)
			for _, shard := range c.RequestSharded(ctx, ask) {
				if shard.Err != nil {
					return 0, shard.Err
				}
				for _, p := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions {
					sum += p.Offset
				}
			}
			return sum, nil
		},
		empty: keep, publish: bareKafka(c)}
}

// startAMQP starts a RabbitMQ with a durable classic queue.
func startAMQP(t *testing.T) running {
	r := realserver.StartRabbitMQ(t)
	conn, err := amqp091.Dial("amqp://guest:guest@" + r.Address() + "/")
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() }) // the broker ends, too
	owner, err := conn.Channel()
	must(t, err)
	_, err = owner.QueueDeclare(topic, true, false, false, false, nil)
	must(t, err)
	ch, err := conn.Channel()
	must(t, err)
	must(t, ch.Confirm(false))
	password := filepath.Join(t.TempDir(), "password")
	must(t, os.WriteFile(password, []byte("guest\n"), 0o600))
	return running{name: "RabbitMQ", pid: r.PID(),
		settings: fmt.Sprintf("    kind: amqp\n    addresses: [%q]\n    user: guest\n    password_file: %s\n",
			r.Address(), password),
		target: carillon.Target{AMQP: &carillon.AMQPTarget{Broker: "measured", RoutingKey: topic}},
		held: func(context.Context) (int64, error) {
			q, err := owner.QueueDeclarePassive(topic, true, false, false, false, nil)
			return int64(q.Messages), err
		},
		empty: func(context.Context) error {
			_, err := owner.QueuePurge(topic, false)
			return err
		},
		publish: bareAMQP(ch)}
}

// startNATS starts a server with a stream of JetStream on disk, which is synced before it acknowledges.
func startNATS(t *testing.T) running {
	n := realserver.StartNATS(t)
	runs, err := n.JetStream(t).CreateStream(t.Context(), jetstream.StreamConfig{Name: "RUNS",
		Subjects: []string{topic}})
	must(t, err)
	nc, err := nats.Connect(n.Address())
	must(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(*inFlight))
	must(t, err)
	return running{name: "NATS JetStream", pid: n.PID(),
		settings: fmt.Sprintf("    kind: nats\n    addresses: [%q]\n", n.Address()),
		target:   carillon.Target{NATS: &carillon.NATSTarget{Server: "measured", Subject: topic}},
		held: func(ctx context.Context) (int64, error) {
			info, err := runs.Info(ctx)
			if err != nil {
				return 0, err
			}
			return int64(info.State.Msgs), nil
		},
		empty:   func(ctx context.Context) error { return runs.Purge(ctx) },
		publish: bareNATS(js)}
}

// startRedis starts a server with appendfsync always.
func startRedis(t *testing.T) running {
	r := realserver.StartRedis(t)
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{r.Address()}, DisableCache: true})
	must(t, err)
	t.Cleanup(c.Close)
	return running{name: "Redis", pid: r.PID(),
		settings: fmt.Sprintf("    kind: redis\n    addresses: [%q]\n", r.Address()),
		target:   carillon.Target{Redis: &carillon.RedisTarget{Server: "measured", Stream: topic}},
		held: func(ctx context.Context) (int64, error) {
			return c.Do(ctx, c.B().Xlen().Key(topic).Build()).AsInt64()
		},
		empty:   func(ctx context.Context) error { return c.Do(ctx, c.B().Del().Key(topic).Build()).Error() },
		publish: bareRedis(c)}
}
