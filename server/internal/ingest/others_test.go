package ingest_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rabbitmq/amqp091-go"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker/amqp"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker/natsbroker"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker/redisbroker"
	"github.com/carillonhq/carillon/server/internal/ingest"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

func TestRedis(t *testing.T) {
	t.Parallel()
	onOneBroker(t, startRedis(t))
}

func startRedis(t testing.TB) *kind {
	t.Helper()
	s := realserver.StartRedis(t)
	k := &kind{settings: broker.Settings{Kind: "redis", Addresses: []string{s.Address()}, InFlight: 64},
		group: "carillon", crash: s.Crash, up: s.Up,
		client: func(b broker.Settings) (broker.Client, error) {
			return redisbroker.New(redisbroker.Options{Addresses: b.Addresses})
		},
		source: func(b broker.Settings, of broker.Subscription) (broker.Source, error) {
			return redisbroker.NewSource(redisbroker.Options{Addresses: b.Addresses}, of)
		},
		topic: func(_ testing.TB, name string) carillon.Target {
			return carillon.Target{Redis: &carillon.RedisTarget{Server: "b", Stream: name}}
		},
		stranger: func(b broker.Settings, of broker.Subscription) (broker.Source, error) {
			s.Do(t, "ACL", "SETUSER", "stranger", "on", ">secret", "~*", "+@all", "-xreadgroup")
			return redisbroker.NewSource(redisbroker.Options{Addresses: b.Addresses, User: "stranger", Password: "secret"}, of)
		},
		allow: func(t testing.TB, _ string) {
			t.Helper()
			s.Do(t, "ACL", "SETUSER", "stranger", "+xreadgroup")
		}}
	k.read = func(t testing.TB, name string, n int) []*broker.Delivery { return readAll(t, k, name, n) }
	return k
}

func TestRabbitMQ(t *testing.T) {
	t.Parallel()
	onOneBroker(t, startRabbitMQ(t))
}

func startRabbitMQ(t testing.TB) *kind {
	t.Helper()
	s := realserver.StartRabbitMQ(t)
	options := func(b broker.Settings) amqp.Options {
		return amqp.Options{Addresses: b.Addresses, Username: "guest", Password: "guest"}
	}
	rights := func(t testing.TB, read string) {
		t.Helper()
		s.Eval(t, fmt.Sprintf(`rabbit_auth_backend_internal:set_permissions(<<"stranger">>, <<"/">>, <<"^$">>, <<"^$">>,
			<<"%s">>, <<"test">>).`, read))
	}
	k := &kind{settings: broker.Settings{Kind: "amqp", Addresses: []string{s.Address()}, InFlight: 64},
		crash: s.Crash, up: s.Up,
		client: func(b broker.Settings) (broker.Client, error) { return amqp.New(options(b)) },
		source: func(b broker.Settings, of broker.Subscription) (broker.Source, error) {
			return amqp.NewSource(options(b), of)
		},
		topic: func(t testing.TB, name string) carillon.Target {
			t.Helper()
			conn, err := amqp091.Dial("amqp://guest:guest@" + s.Address() + "/")
			if err != nil {
				t.Fatal(err)
			}
			ch, err := conn.Channel()
			if err == nil {
				_, err = ch.QueueDeclare(name, true, false, false, false, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
			return carillon.Target{AMQP: &carillon.AMQPTarget{Broker: "b", RoutingKey: name}}
		},
		stranger: func(b broker.Settings, of broker.Subscription) (broker.Source, error) {
			s.Eval(t, `rabbit_auth_backend_internal:add_user(<<"stranger">>, <<"secret">>, <<"test">>).`)
			rights(t, "^$")
			return amqp.NewSource(amqp.Options{Addresses: b.Addresses, Username: "stranger", Password: "secret"}, of)
		},
		allow: func(t testing.TB, _ string) {
			t.Helper()
			rights(t, ".*")
		}}
	k.read = func(t testing.TB, name string, n int) []*broker.Delivery { return readAll(t, k, name, n) }
	return k
}

func TestNATS(t *testing.T) {
	t.Parallel()
	k := startNATS(t)
	t.Run("a durable consumer that is there stays as it is", func(t *testing.T) { aDurableConsumer(t, k) })
	t.Run("an event completes a run that a broker has", func(t *testing.T) { anEventCompletesARun(t, k) })
	onOneBroker(t, k)
}

// anEventCompletesARun of a target with await_completion, by its token.
func anEventCompletesARun(t *testing.T, k *kind) {
	to, work := k.topic(t, "answers"), k.topic(t, "work")
	file := filepath.Join(t.TempDir(), "brokers.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "brokers:\n  b:\n    kind: nats\n    addresses: [%q]\n",
		k.settings.Addresses[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	n := start(t, server.Targets{Brokers: server.Brokers{File: file,
		Clients: map[string]broker.New{"nats": k.client}}})
	x := k.take(t, n.to, "answers")
	work.NATS.AwaitCompletion = true
	if _, err := n.Scheduler().PutJob(t.Context(),
		carillon.Job{Namespace: "shop", Name: "a", Target: work, Timeout: time.Hour}); err != nil {
		t.Fatal(err)
	}
	d := k.read(t, "work", 1)[0]
	token, run := d.Header("carillon-token"), d.Header("ce-id")
	done := fmt.Sprintf(`{"token": %q, "outcome": "success", "response": "done"}`, token)
	k.send(t, event(to, "1", ingest.RunComplete, run, done), event(to, "1", ingest.RunComplete, run, done))
	x.awaits(t, ingest.Done, 1)
	x.awaitsAtLeast(t, ingest.Repeated, 1)
	if r, err := n.Scheduler().GetRun(t.Context(), "shop", run); err != nil || r.Status != carillon.RunSucceeded ||
		string(r.Response) != "done" {
		t.Errorf("%v, %q, %v", r.Status, r.Response, err)
	}
	k.send(t, event(to, "2", ingest.RunComplete, run, fmt.Sprintf(`{"token": %q, "outcome": "failure"}`, token)))
	x.awaits(t, ingest.Dead, 1)
}

// TestWhatExceedsABoundIsRefused, unless it was done before.
func TestWhatExceedsABoundIsRefused(t *testing.T) {
	n := start(t)
	large := carillon.Data{Bytes: make([]byte, carillon.DefaultBounds().Payload+1)}
	for name, c := range map[string]message.Command{
		"put":     {Job: &carillon.Job{Target: carillon.WorkerQueue("q"), Data: large}},
		"trigger": {Trigger: &carillon.TriggerOptions{Data: &large}},
	} {
		c.Request, c.Key = name, carillon.Key{Namespace: "shop", Name: "a"}
		_, err := n.to.Do(t.Context(), c)
		e, ok := errors.AsType[*carillon.Error](err)
		if !ok || e.Kind != carillon.InvalidArgument || e.Field != "data" || e.Unknown {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func aDurableConsumer(t *testing.T, k *kind) {
	to := k.topic(t, "durable")
	conn, err := nats.Connect("nats://" + k.settings.Addresses[0])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	given := jetstream.ConsumerConfig{Durable: k.group, AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute,
		MaxAckPending: 77, Description: "an operator's"}
	unfit := jetstream.ConsumerConfig{Durable: "unfit", AckPolicy: jetstream.AckNonePolicy}
	hasty := jetstream.ConsumerConfig{Durable: "hasty", AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: 5}
	for _, c := range []jetstream.ConsumerConfig{given, unfit, hasty} {
		if _, err := js.CreateConsumer(t.Context(), "durable", c); err != nil {
			t.Fatal(err)
		}
	}
	k.send(t, event(to, "1", ingest.JobPut, "a", later))
	x := k.take(t, start(t).to, "durable")
	x.awaits(t, ingest.Done, 1)
	c, err := js.Consumer(t.Context(), "durable", k.group)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.CachedInfo().Config; got.AckWait != given.AckWait || got.MaxAckPending != given.MaxAckPending ||
		got.Description != given.Description {
		t.Errorf("it has become %+v", got)
	}
	for group, want := range map[string]string{"unfit": "must be explicit", "hasty": "after 5 deliveries"} {
		s, err := k.source(k.settings, broker.Subscription{Topic: "durable", Group: group, InFlight: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Receive(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("of the consumer %s: %v", group, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// startNATS starts a server in this process: it is ended without a farewell to its clients.
func startNATS(t testing.TB) *kind {
	t.Helper()
	o := natsserver.Options{Host: "127.0.0.1", Port: realserver.Port(t), NoLog: true, NoSigs: true,
		JetStream: true, StoreDir: t.TempDir(), NoAuthUser: "all",
		Users: []*natsserver.User{{Username: "all", Password: "secret"}, {Username: "stranger", Password: "secret",
			Permissions: &natsserver.Permissions{Publish: &natsserver.SubjectPermission{Deny: []string{"$JS.API.CONSUMER.>"}}}}}}
	var s *natsserver.Server
	up := func(t testing.TB) {
		t.Helper()
		var err error
		if s, err = natsserver.NewServer(&o); err != nil {
			t.Fatal(err)
		}
		s.Start()
		if !s.ReadyForConnections(time.Minute) {
			t.Fatal("nats-server does not start")
		}
	}
	crash := func(testing.TB) {
		s.Shutdown()
		s.WaitForShutdown()
	}
	up(t)
	t.Cleanup(func() { crash(t) })
	address := net.JoinHostPort(o.Host, strconv.Itoa(o.Port))
	stream := func(name string) string { return strings.ToUpper(name) }
	k := &kind{settings: broker.Settings{Kind: "nats", Addresses: []string{address}, InFlight: 64},
		group: "carillon", crash: crash, up: up,
		client: func(b broker.Settings) (broker.Client, error) {
			return natsbroker.New(natsbroker.Options{Addresses: b.Addresses})
		},
		source: func(b broker.Settings, of broker.Subscription) (broker.Source, error) {
			return natsbroker.NewSource(natsbroker.Options{Addresses: b.Addresses}, of)
		},
		topic: func(t testing.TB, name string) carillon.Target {
			t.Helper()
			conn, err := nats.Connect("nats://" + address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			js, err := jetstream.New(conn)
			if err == nil {
				_, err = js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: name,
					Subjects: []string{stream(name)}})
			}
			if err != nil {
				t.Fatal(err)
			}
			return carillon.Target{NATS: &carillon.NATSTarget{Server: "b", Subject: stream(name)}}
		},
		stranger: func(b broker.Settings, of broker.Subscription) (broker.Source, error) {
			return natsbroker.NewSource(natsbroker.Options{Addresses: b.Addresses, User: "stranger", Password: "secret"}, of)
		},
		allow: func(t testing.TB, _ string) {
			t.Helper()
			open := o
			open.Users = []*natsserver.User{o.Users[0], {Username: "stranger", Password: "secret"}}
			if err := s.ReloadOptions(&open); err != nil {
				t.Fatal(err)
			}
		}}
	k.read = func(t testing.TB, name string, n int) []*broker.Delivery { return readAll(t, k, name, n) }
	return k
}
