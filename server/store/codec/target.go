package codec

import (
	"math"

	"github.com/carillonhq/carillon"
)

func (w *writer) target(field int, t *carillon.Target) {
	at := w.begin(field)
	switch {
	case t.Worker != nil:
		w.texts(1, t.Worker.Queue)
	case t.HTTP != nil:
		w.http(2, t.HTTP)
	case t.Kafka != nil:
		w.texts(3, t.Kafka.Cluster, t.Kafka.Topic, t.Kafka.Key)
	case t.AMQP != nil:
		w.texts(4, t.AMQP.Broker, t.AMQP.Exchange, t.AMQP.RoutingKey)
	case t.NATS != nil:
		w.texts(5, t.NATS.Server, t.NATS.Subject)
	case t.Redis != nil:
		w.texts(6, t.Redis.Server, t.Redis.Stream)
	case t.Exec != nil:
		w.exec(7, t.Exec)
	case t.Dapr != nil:
		w.texts(8, t.Dapr.AppID, t.Dapr.ActorType, t.Dapr.ActorID, t.Dapr.ConcurrencyKey)
	}
	w.endOrDrop(at)
}

// texts writes a message whose fields 1, 2, … are strings.
func (w *writer) texts(field int, values ...string) {
	at := w.begin(field)
	for i, s := range values {
		w.string(i+1, s)
	}
	w.end(at)
}

func (w *writer) http(field int, t *carillon.HTTPTarget) {
	at := w.begin(field)
	w.string(1, t.URL)
	w.string(2, t.Method)
	w.stringMap(3, t.Headers)
	w.end(at)
}

func (w *writer) exec(field int, t *carillon.ExecTarget) {
	at := w.begin(field)
	w.string(1, t.Artifact)
	w.string(2, t.SHA256)
	w.string(3, t.Entrypoint)
	w.strings(4, t.Args)
	w.stringMap(5, t.Env)
	w.end(at)
}

// decodeTarget decodes a Target; of several kinds the last counts, as in any oneof.
func decodeTarget(t *carillon.Target, b []byte) error {
	r := reader{b: b}
	for r.next() {
		if r.field > 8 {
			r.skip()
			continue
		}
		*t = carillon.Target{}
		body := r.bytes()
		switch r.field {
		case 1:
			t.Worker = new(carillon.WorkerTarget)
			r.check(decodeTexts(body, &t.Worker.Queue))
		case 2:
			t.HTTP = new(carillon.HTTPTarget)
			r.check(decodeHTTP(t.HTTP, body))
		case 3:
			t.Kafka = new(carillon.KafkaTarget)
			r.check(decodeTexts(body, &t.Kafka.Cluster, &t.Kafka.Topic, &t.Kafka.Key))
		case 4:
			t.AMQP = new(carillon.AMQPTarget)
			r.check(decodeTexts(body, &t.AMQP.Broker, &t.AMQP.Exchange, &t.AMQP.RoutingKey))
		case 5:
			t.NATS = new(carillon.NATSTarget)
			r.check(decodeTexts(body, &t.NATS.Server, &t.NATS.Subject))
		case 6:
			t.Redis = new(carillon.RedisTarget)
			r.check(decodeTexts(body, &t.Redis.Server, &t.Redis.Stream))
		case 7:
			t.Exec = new(carillon.ExecTarget)
			r.check(decodeExec(t.Exec, body))
		case 8:
			t.Dapr = new(carillon.DaprTarget)
			r.check(decodeTexts(body, &t.Dapr.AppID, &t.Dapr.ActorType, &t.Dapr.ActorID, &t.Dapr.ConcurrencyKey))
		}
	}
	return r.err
}

// decodeTexts decodes a message whose fields 1, 2, … are strings.
func decodeTexts(b []byte, into ...*string) error {
	r := reader{b: b}
	for r.next() {
		if r.field <= len(into) {
			*into[r.field-1] = r.string()
		} else {
			r.skip()
		}
	}
	return r.err
}

func decodeHTTP(t *carillon.HTTPTarget, b []byte) error {
	r := reader{b: b}
	for r.next() {
		switch r.field {
		case 1:
			t.URL = r.string()
		case 2:
			t.Method = r.string()
		case 3:
			t.Headers = r.entry(t.Headers)
		default:
			r.skip()
		}
	}
	return r.err
}

func decodeExec(t *carillon.ExecTarget, b []byte) error {
	r := reader{b: b}
	for r.next() {
		switch r.field {
		case 1:
			t.Artifact = r.string()
		case 2:
			t.SHA256 = r.string()
		case 3:
			t.Entrypoint = r.string()
		case 4:
			t.Args = append(t.Args, r.string())
		case 5:
			t.Env = r.entry(t.Env)
		default:
			r.skip()
		}
	}
	return r.err
}

// targetSize estimates the length of the encoded target.
func targetSize(t *carillon.Target) int {
	const perField = 8
	switch {
	case t.Worker != nil:
		return perField + len(t.Worker.Queue)
	case t.Dapr != nil:
		return 4*perField + len(t.Dapr.AppID) + len(t.Dapr.ActorType) + len(t.Dapr.ActorID) +
			len(t.Dapr.ConcurrencyKey)
	case t.HTTP != nil:
		n := 2*perField + len(t.HTTP.URL) + len(t.HTTP.Method)
		for k, v := range t.HTTP.Headers {
			n += perField + len(k) + len(v)
		}
		return n
	}
	return 16 * perField
}

func (w *writer) failurePolicy(field int, p *carillon.FailurePolicy) {
	at := w.begin(field)
	w.uint(1, uint64(p.Kind))
	w.sint(2, int64(p.Interval))
	w.string(3, p.Schedule)
	w.sint(4, int64(p.Initial))
	w.float(5, p.Factor)
	w.sint(6, int64(p.Max))
	w.sint(7, int64(p.Jitter))
	w.uintPtr(8, p.MaxRetries)
	w.uint(9, uint64(p.OnExhausted))
	w.endOrDrop(at)
}

// uintPtr writes an optional uint32: zero is written, nil is not.
func (w *writer) uintPtr(field int, v *uint32) {
	switch {
	case v == nil:
	case *v == 0:
		w.tag(field, wireVarint)
		w.b = append(w.b, 0)
	default:
		w.uint(field, uint64(*v))
	}
}

func decodeFailurePolicy(p *carillon.FailurePolicy, b []byte) error {
	r := reader{b: b}
	for r.next() {
		switch r.field {
		case 1:
			p.Kind = carillon.PolicyKind(r.enum())
		case 2:
			p.Interval = r.duration()
		case 3:
			p.Schedule = r.string()
		case 4:
			p.Initial = r.duration()
		case 5:
			p.Factor = r.float()
		case 6:
			p.Max = r.duration()
		case 7:
			p.Jitter = r.duration()
		case 8:
			*p = p.WithMaxRetries(uint32(r.upTo(math.MaxUint32)))
		case 9:
			p.OnExhausted = carillon.OnExhausted(r.enum())
		default:
			r.skip()
		}
	}
	return r.err
}

func (w *writer) history(field int, h *carillon.History) {
	at := w.begin(field)
	w.sint(1, int64(h.Runs))
	w.sint(2, int64(h.Keep))
	w.endOrDrop(at)
}

func decodeHistory(h *carillon.History, b []byte) error {
	r := reader{b: b}
	for r.next() {
		switch r.field {
		case 1:
			h.Runs = r.int()
		case 2:
			h.Keep = r.duration()
		default:
			r.skip()
		}
	}
	return r.err
}
