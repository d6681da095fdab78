package chaos_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rabbitmq/amqp091-go"

	sched "github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker/amqp"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker/kafka"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker/natsbroker"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker/redisbroker"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// source is a broker that has the topic of an ingest, and that of its dead letters.
type source struct {
	settings  string // of the file of brokers
	topic     string // as the file names it
	group     bool
	inOrder   bool // messages that come again come in their order
	crash, up func(testing.TB)
	client    func() (broker.Client, error)
	to        func(key string) sched.Target // the topic
	dead      sched.Target
	// letters takes the dead letters, from the first on.
	letters func() (broker.Source, error)
}

const commands, letters = "commands", "letters"

// sources are those of each kind of broker.
var sources = map[string]func(*testing.T) source{"kafka": kafkaSource, "amqp": amqpSource, "nats": natsSource,
	"redis": redisSource}

// file is the file of brokers.
func (s *source) file(t *testing.T) string {
	text := "brokers:\n  tested:\n" + s.settings + "ingest:\n  tested:\n    broker: tested\n    topics: [" + s.topic +
		"]\n    namespace: default\n    in_flight: 256\n    dead_letter: " + letters + "\n"
	if s.group {
		text += "    group: carillon\n"
	}
	file := filepath.Join(t.TempDir(), "brokers.yaml")
	must(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// reading is how dead letters are taken.
func reading(topic string) broker.Subscription {
	return broker.Subscription{Topic: topic, Group: "reader", InFlight: 1000}
}

func kafkaSource(t *testing.T) source {
	certificate, key, _ := realserver.Authority(t)
	k := realserver.NewKafka(t, certificate, key)
	k.Up(t)
	k.Topic(t, commands, 3)
	k.Topic(t, letters, 1) // the mark at its end is the last
	o := kafka.Options{Addresses: []string{k.Address()}}
	to := func(topic, key string) sched.Target {
		return sched.Target{Kafka: &sched.KafkaTarget{Cluster: "tested", Topic: topic, Key: key}}
	}
	return source{
		settings: fmt.Sprintf("    kind: kafka\n    addresses: [%q]\n", k.Address()), topic: commands, group: true,
		inOrder: true, crash: k.Crash, up: k.Up,
		client: func() (broker.Client, error) { return kafka.New(o) },
		to:     func(key string) sched.Target { return to(commands, key) }, dead: to(letters, ""),
		letters: func() (broker.Source, error) { return kafka.NewSource(o, reading(letters)) },
	}
}

func amqpSource(t *testing.T) source {
	r := realserver.StartRabbitMQ(t)
	conn, err := amqp091.Dial("amqp://guest:guest@" + r.Address())
	must(t, err)
	ch, err := conn.Channel()
	must(t, err)
	for _, name := range []string{commands, letters} {
		_, err = ch.QueueDeclare(name, true, false, false, false, nil)
		must(t, err)
	}
	must(t, conn.Close())
	password := filepath.Join(t.TempDir(), "password")
	must(t, os.WriteFile(password, []byte("guest\n"), 0o600))
	o := amqp.Options{Addresses: []string{r.Address()}, Username: "guest", Password: "guest"}
	to := func(queue string) sched.Target {
		return sched.Target{AMQP: &sched.AMQPTarget{Broker: "tested", RoutingKey: queue}}
	}
	return source{
		settings: fmt.Sprintf("    kind: amqp\n    addresses: [%q]\n    user: guest\n    password_file: %s\n", r.Address(),
			password),
		topic: commands, crash: r.Crash, up: r.Up,
		client: func() (broker.Client, error) { return amqp.New(o) },
		to:     func(string) sched.Target { return to(commands) }, dead: to(letters),
		letters: func() (broker.Source, error) { return amqp.NewSource(o, reading(letters)) },
	}
}

func natsSource(t *testing.T) source {
	n := realserver.StartNATS(t)
	const stream, lettersStream = "COMMANDS", "LETTERS"
	for name, subject := range map[string]string{stream: commands, lettersStream: letters} {
		_, err := n.JetStream(t).CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{subject}})
		must(t, err)
	}
	o := natsbroker.Options{Addresses: []string{n.Address()}}
	to := func(subject string) sched.Target {
		return sched.Target{NATS: &sched.NATSTarget{Server: "tested", Subject: subject}}
	}
	return source{
		settings: fmt.Sprintf("    kind: nats\n    addresses: [%q]\n", n.Address()), topic: stream, group: true,
		crash: n.Crash, up: n.Up,
		client: func() (broker.Client, error) { return natsbroker.New(o) },
		to:     func(string) sched.Target { return to(commands) }, dead: to(letters),
		letters: func() (broker.Source, error) { return natsbroker.NewSource(o, reading(lettersStream)) },
	}
}

func redisSource(t *testing.T) source {
	r := realserver.StartRedis(t)
	o := redisbroker.Options{Addresses: []string{r.Address()}}
	to := func(stream string) sched.Target {
		return sched.Target{Redis: &sched.RedisTarget{Server: "tested", Stream: stream}}
	}
	return source{
		settings: fmt.Sprintf("    kind: redis\n    addresses: [%q]\n", r.Address()), topic: commands, group: true,
		crash: r.Crash, up: r.Up,
		client: func() (broker.Client, error) { return redisbroker.New(o) },
		to:     func(string) sched.Target { return to(commands) }, dead: to(letters),
		letters: func() (broker.Source, error) { return redisbroker.NewSource(o, reading(letters)) },
	}
}
