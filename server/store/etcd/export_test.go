package etcd

import (
	"context"
	"time"

	"github.com/carillonhq/carillon/server/store/serverclock"
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

// NextDate is when a member is to be asked for its date.
func NextDate(c *serverclock.Clock, endpoint string) time.Duration { return nextDate(c, endpoint) }

// InMemory reports whether a partition is in this process's memory.
func (s *Store) InMemory(partition int) bool { return s.replicas[partition].since(0) != nil }
