package codec

import "github.com/carillonhq/carillon"

// target is a target; of several kinds that are read the last counts, as in any oneof.
func (c *coder) target(field int, t *carillon.Target) {
	for at := message(field); c.within(&at); {
		switch {
		case kind(c, 1, t, &t.Worker):
			c.texts(1, &t.Worker.Queue)
		case kind(c, 2, t, &t.HTTP):
			c.http(2, t.HTTP)
		case kind(c, 3, t, &t.Kafka):
			kafka(c, 3, t.Kafka)
		case kind(c, 4, t, &t.AMQP):
			amqp(c, 4, t.AMQP)
		case kind(c, 5, t, &t.NATS):
			nats(c, 5, t.NATS)
		case kind(c, 6, t, &t.Redis):
			redis(c, 6, t.Redis)
		case kind(c, 7, t, &t.Exec):
			c.exec(7, t.Exec)
		case kind(c, 8, t, &t.Dapr):
			c.texts(8, &t.Dapr.AppID, &t.Dapr.ActorType, &t.Dapr.ActorID, &t.Dapr.ConcurrencyKey)
		}
	}
}

// kind reports whether a target has a kind that is to be written, or that is next to read.
func kind[T any](c *coder, field int, t *carillon.Target, k **T) bool {
	if c.field == field {
		*t = carillon.Target{}
	}
	return given(c, field, k)
}

// given reports whether a message that may be missing is to be written, or is next to read.
func given[T any](c *coder, field int, m **T) bool {
	if c.field == field {
		*m = new(T)
		return true
	}
	return c.writing && *m != nil
}

func kafka(c *coder, field int, t *carillon.KafkaTarget) {
	for at := item(field); c.within(&at); {
		c.string(1, &t.Cluster)
		c.string(2, &t.Topic)
		c.string(3, &t.Key)
		c.bool(4, &t.AwaitCompletion)
	}
}

func amqp(c *coder, field int, t *carillon.AMQPTarget) {
	for at := item(field); c.within(&at); {
		c.string(1, &t.Broker)
		c.string(2, &t.Exchange)
		c.string(3, &t.RoutingKey)
		c.bool(4, &t.AwaitCompletion)
	}
}

func nats(c *coder, field int, t *carillon.NATSTarget) {
	for at := item(field); c.within(&at); {
		c.string(1, &t.Server)
		c.string(2, &t.Subject)
		c.bool(3, &t.AwaitCompletion)
	}
}

func redis(c *coder, field int, t *carillon.RedisTarget) {
	for at := item(field); c.within(&at); {
		c.string(1, &t.Server)
		c.string(2, &t.Stream)
		c.bool(3, &t.AwaitCompletion)
	}
}

func (c *coder) http(field int, t *carillon.HTTPTarget) {
	for at := item(field); c.within(&at); {
		c.string(1, &t.URL)
		c.string(2, &t.Method)
		c.stringMap(3, &t.Headers)
	}
}

func (c *coder) exec(field int, t *carillon.ExecTarget) {
	for at := item(field); c.within(&at); {
		c.string(1, &t.Artifact)
		c.string(2, &t.SHA256)
		c.string(3, &t.Entrypoint)
		c.strings(4, &t.Args)
		c.stringMap(5, &t.Env)
	}
}

func (c *coder) failurePolicy(field int, p *carillon.FailurePolicy) {
	for at := message(field); c.within(&at); {
		unsigned(c, 1, &p.Kind)
		signed(c, 2, &p.Interval)
		c.string(3, &p.Schedule)
		signed(c, 4, &p.Initial)
		c.float(5, &p.Factor)
		signed(c, 6, &p.Max)
		signed(c, 7, &p.Jitter)
		c.optional(8, &p.MaxRetries)
		unsigned(c, 9, &p.OnExhausted)
		unsigned(c, 10, &p.PauseAfter)
	}
}

func (c *coder) history(field int, h *carillon.History) {
	for at := message(field); c.within(&at); {
		signed(c, 1, &h.Runs)
		signed(c, 2, &h.Keep)
		c.bool(3, &h.NoResults)
	}
}
