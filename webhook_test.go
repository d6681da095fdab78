package carillon_test

import (
	"errors"
	"testing"

	"github.com/carillonhq/carillon"
)

// hookAt is a webhook of a target at a broker.
func hookAt(t carillon.Target) carillon.Webhook {
	return carillon.Webhook{Name: "w", Types: []carillon.EventType{"run"}, Kafka: t.Kafka, AMQP: t.AMQP, NATS: t.NATS,
		Redis: t.Redis}
}

var (
	someTopic   = &carillon.KafkaTarget{Cluster: "c", Topic: "t"}
	someSubject = &carillon.NATSTarget{Server: "s", Subject: "a.b"}
)

// TestWhereAWebhookSends is one address or one broker, whose fields are checked as those of jobs are.
func TestWhereAWebhookSends(t *testing.T) {
	both := hookAt(carillon.Target{Kafka: someTopic})
	both.URL = "https://example.com"
	headers := hookAt(carillon.Target{NATS: someSubject})
	headers.Headers = map[string]string{"Authorization": "x"}
	for field, w := range map[string]carillon.Webhook{
		"":                          hookAt(carillon.Target{Kafka: someTopic}),
		"webhooks[0].url":           hookAt(carillon.Target{}),
		"webhooks[0].kafka":         both,
		"webhooks[0].nats":          hookAt(carillon.Target{NATS: someSubject, Redis: &carillon.RedisTarget{}}),
		"webhooks[0].headers":       headers,
		"webhooks[0].kafka.topic":   hookAt(carillon.Target{Kafka: &carillon.KafkaTarget{Cluster: "c", Topic: "a/b"}}),
		"webhooks[0].amqp.broker":   hookAt(carillon.Target{AMQP: &carillon.AMQPTarget{}}),
		"webhooks[0].nats.subject":  hookAt(carillon.Target{NATS: &carillon.NATSTarget{Server: "s", Subject: "a.*"}}),
		"webhooks[0].redis.stream":  hookAt(carillon.Target{Redis: &carillon.RedisTarget{Server: "s"}}),
		"webhooks[0].kafka.cluster": hookAt(carillon.Target{Kafka: &carillon.KafkaTarget{Cluster: "c/d", Topic: "t"}}),
		"webhooks[0].kafka.await_completion": hookAt(carillon.Target{
			Kafka: &carillon.KafkaTarget{Cluster: "c", Topic: "t", AwaitCompletion: true}}),
		"webhooks[0].amqp.await_completion": hookAt(carillon.Target{
			AMQP: &carillon.AMQPTarget{Broker: "b", RoutingKey: "k", AwaitCompletion: true}}),
	} {
		err := (&carillon.Namespace{Name: "n", Webhooks: []carillon.Webhook{w}}).Validate()
		wrong, refused := errors.AsType[*carillon.Error](err)
		if refused != (field != "") || refused && (wrong.Field != field || wrong.Kind != carillon.InvalidArgument) {
			t.Errorf("not about %q: %v", field, err)
		}
	}
	http := carillon.Webhook{Name: "w", URL: "ftp://example.com", Types: []carillon.EventType{"run"}}
	err := (&carillon.Namespace{Name: "n", Webhooks: []carillon.Webhook{http}}).Validate()
	if wrong, ok := errors.AsType[*carillon.Error](err); !ok || wrong.Field != "webhooks[0].url" {
		t.Error(err)
	}
}

// TestTheKeyOfAnEvent is what it is about, unless the webhook has one.
func TestTheKeyOfAnEvent(t *testing.T) {
	w := hookAt(carillon.Target{Kafka: someTopic})
	for want, e := range map[string]carillon.Event{"a/b": {Job: "a/b", Run: "r"}, "q": {QueueKind: "worker", Queue: "q"},
		"node-1": {Node: "node-1"}, "": {}} {
		if got := w.TargetOf(&e).Kafka; got.Key != want || got.Topic != "t" {
			t.Errorf("%+v, want the key %q", got, want)
		}
	}
	if someTopic.Key != "" {
		t.Error("the webhook itself has got a key")
	}
	w.Kafka = &carillon.KafkaTarget{Cluster: "c", Topic: "t", Key: "own"}
	if got := w.TargetOf(&carillon.Event{Job: "a"}).Kafka; got.Key != "own" {
		t.Errorf("%+v", got)
	}
}

// TestAnotherTargetOfAWebhookIsAChange: the generation counts it, and a copy shares nothing.
func TestAnotherTargetOfAWebhookIsAChange(t *testing.T) {
	old := carillon.Namespace{Name: "n", Generation: 1,
		Webhooks: []carillon.Webhook{hookAt(carillon.Target{NATS: someSubject})}}
	same := old.Clone()
	if put, err := same.Over(old); err != nil || put.Generation != 1 {
		t.Errorf("the same: generation %d, %v", put.Generation, err)
	}
	same.Webhooks[0].NATS.Subject = "other"
	if old.Webhooks[0].NATS.Subject != "a.b" {
		t.Fatal("the copy shares the target")
	}
	if put, err := same.Over(old); err != nil || put.Generation != 2 {
		t.Errorf("another subject: generation %d, %v", put.Generation, err)
	}
}
