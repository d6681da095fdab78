package codec

import (
	"maps"
	"slices"

	"github.com/carillonhq/carillon"
)

// EncodeNamespace encodes the settings of a namespace, without its name. The result is never nil.
func EncodeNamespace(n *carillon.Namespace) []byte {
	c := coder{b: []byte{}, writing: true}
	c.namespace(n)
	return c.b
}

// DecodeNamespace decodes what EncodeNamespace wrote.
func DecodeNamespace(b []byte, name string) (carillon.Namespace, error) {
	n := carillon.Namespace{Name: name}
	c := coder{b: b}
	if c.namespace(&n); c.err != nil {
		return carillon.Namespace{}, damaged("namespace", c.err)
	}
	return n, nil
}

func (c *coder) namespace(n *carillon.Namespace) {
	for at := message(0); c.within(&at); {
		c.bool(1, &n.Strict)
		c.limits(2, &n.ConcurrencyLimits)
		unsigned(c, 3, &n.Generation)
		for w := range each(c, 4, &n.Webhooks) {
			c.webhook(4, w)
		}
		signed(c, 5, &n.UnservedAfter)
		quotas(c, 6, &n.Quotas)
		rates(c, 7, &n.RateLimits)
		refuseSealed(c, namespaceSealed)
	}
}

func (c *coder) webhook(field int, w *carillon.Webhook) {
	for at := item(field); c.within(&at); {
		c.string(1, &w.Name)
		c.string(2, &w.URL)
		c.stringMap(3, &w.Headers)
		for t := range each(c, 4, &w.Types) {
			c.element(4, (*string)(t))
		}
		c.string(5, &w.Prefix)
		if given(c, 6, &w.Kafka) {
			kafka(c, 6, w.Kafka)
		}
		if given(c, 7, &w.AMQP) {
			amqp(c, 7, w.AMQP)
		}
		if given(c, 8, &w.NATS) {
			nats(c, 8, w.NATS)
		}
		if given(c, 9, &w.Redis) {
			redis(c, 9, w.Redis)
		}
	}
}

// limits is the limits, written by key.
func (c *coder) limits(field int, limits *map[string]int) {
	if c.writing {
		for _, key := range slices.Sorted(maps.Keys(*limits)) {
			c.limit(field, key, (*limits)[key])
		}
	}
	for c.field == field {
		key, most := c.limit(field, "", 0)
		if *limits == nil {
			*limits = map[string]int{}
		}
		(*limits)[key] = most
	}
}

func (c *coder) limit(field int, key string, most int) (string, int) {
	for at := item(field); c.within(&at); {
		c.string(1, &key)
		signed(c, 2, &most)
	}
	return key, most
}

// quotas are the quotas of a namespace, if there are any.
func quotas(c *coder, field int, q *carillon.Quotas) {
	if c.writing && *q == (carillon.Quotas{}) {
		return
	}
	for at := item(field); c.within(&at); {
		signed(c, 1, &q.Jobs)
		signed(c, 2, &q.PayloadBytes)
		quotaRate(c, 3, &q.Puts)
		quotaRate(c, 4, &q.Runs)
		signed(c, 5, &q.ConcurrentRuns)
	}
}

// quotaRate is a rate, if there is one.
func quotaRate(c *coder, field int, r *carillon.Rate) {
	if !c.writing || *r != (carillon.Rate{}) {
		rate(c, field, r)
	}
}

func rate(c *coder, field int, r *carillon.Rate) {
	for at := item(field); c.within(&at); {
		signed(c, 1, &r.Count)
		signed(c, 2, &r.Period)
		signed(c, 3, &r.Burst)
	}
}

// rates are the rate limits, written by key.
func rates(c *coder, field int, rates *map[string]carillon.Rate) {
	if c.writing {
		for _, key := range slices.Sorted(maps.Keys(*rates)) {
			keyedRate(c, field, key, (*rates)[key])
		}
	}
	for c.field == field {
		key, r := keyedRate(c, field, "", carillon.Rate{})
		if *rates == nil {
			*rates = map[string]carillon.Rate{}
		}
		(*rates)[key] = r
	}
}

func keyedRate(c *coder, field int, key string, r carillon.Rate) (string, carillon.Rate) {
	for at := item(field); c.within(&at); {
		c.string(1, &key)
		rate(c, 2, &r)
	}
	return key, r
}
