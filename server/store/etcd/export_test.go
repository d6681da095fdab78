package etcd

import (
	"context"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

// Hurried returns options of a store whose maintainer acts so often, and keeps replaced values so long.
func Hurried(o Options, every, kept time.Duration) Options {
	o.pace = pace{every, kept, kept}
	return o
}

// MostOps is how many operations a transaction may have, as far as the store knows.
func (s *Store) MostOps() int { return int(s.wire.mostOps.Load()) }

// Keys are the keys that begin with what comes behind the store's prefix, and how often each was written.
func (s *Store) Keys(ctx context.Context, prefix string) (map[string]int64, error) {
	found, err := s.wire.get(ctx, under(s.keys.of(prefix)))
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for _, kv := range found.Kvs {
		out[string(kv.Key[len(s.keys.prefix)+1:])] = kv.Version
	}
	return out, nil
}

// Clock is the store's clock apart from the store.
type Clock struct{ c *clock }

// NewClock is a clock that asks nobody.
func NewClock(now func() time.Time, log store.Logger) Clock {
	return Clock{&clock{now: now, log: log, bounds: map[string]bounds{}}}
}

// Answer is that a member's answer came with a date, to what was asked at another time.
func (c Clock) Answer(endpoint string, asked, answered, date time.Time) {
	c.c.answer(endpoint, asked, answered, date)
}

// Next is when a member is to be asked.
func (c Clock) Next(endpoint string) time.Duration { return c.c.next(endpoint) }

// Ahead is how far the store's clock is ahead of this node's.
func (c Clock) Ahead() time.Duration { return c.c.ahead() }

// Bounds are how far a member's clock is ahead, at least and at most.
func (c Clock) Bounds(endpoint string) (low, high time.Duration) {
	b := c.c.bounds[endpoint]
	return b.low, b.high
}

// InMemory reports whether a partition is in this process's memory.
func (s *Store) InMemory(partition int) bool { return s.replicas[partition].since(0) != nil }
