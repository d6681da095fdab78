package carillon

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Webhook is where events of a namespace are sent, each as a CloudEvent: an address that takes HTTP
// requests, or a broker. Exactly one of URL, Kafka, AMQP, NATS and Redis is set.
//
// Each event that it selects becomes a one-shot job of the namespace with that target, whose name begins with
// [EventJobs]. So it is sent as every run is: it is retried until the receiver has answered 2xx, or the
// broker has acknowledged it, it is dead after that, with a redrive, and the namespace's secrets sign
// requests. An event may come more than once, with the same id, and events may come out of order. No webhook
// is told what happens to these jobs.
type Webhook struct {
	Name    string            // unique in the namespace: 1 to 63 bytes of a-z, A-Z, 0-9 and "-"
	URL     string            // http or https; as of an HTTP target
	Headers map[string]string // of the requests; as of an HTTP target. A broker gets none
	// The targets at brokers are as those of jobs. If no key is given, that of a record is the name of the job,
	// queue or node that the event is about: so the events of a job are in one partition of the topic.
	Kafka *KafkaTarget
	AMQP  *AMQPTarget
	NATS  *NATSTarget
	Redis *RedisTarget
	// Types are types of events or groups of them, as in [WatchQuery]; at least one. Nodes belong to no
	// namespace: a webhook of any namespace may ask for what happens to them.
	Types  []EventType
	Prefix string // of the names of jobs; events that are about no job are selected all the same
}

// MaxWebhooks is the most webhooks of a namespace.
const MaxWebhooks = 8

// EventJobs begins the names of the jobs that send events to webhooks.
const EventJobs = "carillon.events/"

// Selects reports whether an event is sent to the webhook, which is one of a namespace.
func (w *Webhook) Selects(namespace string, e *Event) bool {
	return (e.Namespace == namespace || e.Namespace == "") && !strings.HasPrefix(e.Job, EventJobs) &&
		(e.Job == "" || strings.HasPrefix(e.Job, w.Prefix)) &&
		w.Asks(e.Type)
}

// Asks reports whether the webhook asks for events of a type.
func (w *Webhook) Asks(t EventType) bool {
	return slices.ContainsFunc(w.Types, func(of EventType) bool { return of.selects(t) })
}

// Target is the target of the jobs that send events: a webhook that is valid has one.
func (w *Webhook) Target() Target {
	t := Target{Kafka: w.Kafka, AMQP: w.AMQP, NATS: w.NATS, Redis: w.Redis}
	if w.URL != "" {
		t.HTTP = &HTTPTarget{URL: w.URL, Headers: w.Headers}
	}
	return t
}

// TargetOf returns the target of the job that sends an event: [Webhook.Target], with the key of the event.
func (w *Webhook) TargetOf(e *Event) Target {
	t := w.Target()
	if t.Kafka != nil && t.Kafka.Key == "" {
		keyed := *t.Kafka
		keyed.Key = cmp.Or(e.Job, e.Queue, e.Node)
		t.Kafka = &keyed
	}
	return t
}

func (w Webhook) equal(o Webhook) bool {
	return w.Name == o.Name && w.URL == o.URL && w.Prefix == o.Prefix && maps.Equal(w.Headers, o.Headers) &&
		same(w.Kafka, o.Kafka) && same(w.AMQP, o.AMQP) && same(w.NATS, o.NATS) && same(w.Redis, o.Redis) &&
		slices.Equal(w.Types, o.Types)
}

// same reports whether two values are equal, or both are missing.
func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// clone returns a copy that shares nothing with w.
func (w Webhook) clone() Webhook {
	w.Headers, w.Types = maps.Clone(w.Headers), slices.Clone(w.Types)
	w.Kafka, w.AMQP, w.NATS, w.Redis = copied(w.Kafka), copied(w.AMQP), copied(w.NATS), copied(w.Redis)
	return w
}

// copied returns a copy of a value; nil stays nil.
func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

func checkWebhooks(all []Webhook) error {
	if len(all) > MaxWebhooks {
		return invalid("webhooks", "%d are more than %d", len(all), MaxWebhooks)
	}
	for i := range all {
		w := &all[i]
		if slices.ContainsFunc(all[:i], func(other Webhook) bool { return other.Name == w.Name }) {
			return webhookError(i, invalid("name", "%q is the name of two webhooks", clip(w.Name)))
		}
		if err := webhookError(i, w.check()); err != nil {
			return err
		}
	}
	return nil
}

func (w *Webhook) check() error {
	if err := checkNamespace(w.Name, MaxNamespace); err != nil {
		return WithField(err, "name") // names have the same form
	}
	if err := w.checkTarget(); err != nil {
		return err
	}
	switch {
	case len(w.Types) == 0:
		return invalid("types", "it is missing; name types of events or groups of them, such as run.dead or node")
	case len(w.Types) > len(EventTypes()):
		return invalid("types", "%d are more than there are", len(w.Types))
	}
	if w.Prefix != "" {
		if err := checkCharacters("prefix", w.Prefix, MaxName); err != nil {
			return err
		}
	}
	return checkEventTypes("types", w.Types)
}

// checkTarget checks where events are sent.
func (w *Webhook) checkTarget() error {
	switch t, lim := w.Target(), DefaultBounds(); {
	case t.count() == 0:
		return invalid("url", "it is missing; give url, kafka, amqp, nats or redis")
	case t.count() > 1 && t.HTTP != nil:
		return invalid(brokerOf(t), "there is a url too; give exactly one of url, kafka, amqp, nats and redis")
	case t.count() > 1:
		return invalid(t.Kind(), "there are %d brokers; give exactly one of url, kafka, amqp, nats and redis",
			t.count())
	case t.HTTP == nil && len(w.Headers) > 0:
		return invalid("headers", "they have no effect on a target of kind %s; leave them out", t.Kind())
	case t.AwaitsCompletion():
		return invalid(t.Kind()+".await_completion",
			"an event is sent once the broker has acknowledged it, and nobody completes it; leave it out")
	default:
		return t.check(&lim)
	}
}

// brokerOf returns the kind of the target at a broker that is set.
func brokerOf(t Target) string {
	t.HTTP = nil
	return t.Kind()
}

// webhookError returns an error about the webhook at index i of a namespace's, or about its target, with the
// name that the field has among the settings; nil stays nil.
func webhookError(i int, err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	field := strings.TrimPrefix(strings.TrimPrefix(e.Field, "target."), "http.")
	return WithField(err, fmt.Sprintf("webhooks[%d].%s", i, field))
}
