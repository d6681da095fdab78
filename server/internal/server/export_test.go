package server

import (
	"context"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/pebble"
)

// OnDisk is c with a file system of the test's under the store's folder.
func (c Config) OnDisk(fs vfs.FS) Config {
	c.hooks.open = func(_ context.Context, url string, o store.Options) (store.Store, error) {
		opt := pebble.OptionsOf(o)
		opt.FS = fs
		return pebble.Open(strings.TrimPrefix(url, "pebble:"), opt)
	}
	return c
}

// Opening is c with a store of the test's.
func (c Config) Opening(open func(o store.Options) store.Store) Config {
	c.hooks.open = func(_ context.Context, _ string, o store.Options) (store.Store, error) { return open(o), nil }
	return c
}

// Arriving is c with another time for workers to come than 10 s.
func (c Config) Arriving(d time.Duration) Config {
	c.hooks.arrival = d
	return c
}

// WebhooksPosition is how far webhooks have been told.
func (s *Server) WebhooksPosition(ctx context.Context) (string, error) {
	return s.node.engine.WebhooksPosition(ctx)
}

// WarnOfPlainStore is what a start says of the way to the store.
func WarnOfPlainStore(c Config) { c.warnOfPlainStore() }

// StoredMarks is storedMarks.
func StoredMarks(ctx context.Context, s store.Store, check func([]store.MetaRecord) error) error {
	return storedMarks(ctx, s, check)
}
