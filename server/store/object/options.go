package object

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/object/bucket"
	"github.com/carillonhq/carillon/server/store/serverclock"
)

// Options of a store. Bucket is needed.
type Options struct {
	Bucket bucket.Bucket
	// Where names the bucket in errors.
	Where string
	// Prefix is what the names of all objects begin with, without a slash at its end. Default "carillon".
	Prefix string
	// Every is the shortest time between the writes of two segments of a process: what comes meanwhile is
	// written together. Each costs a request. Default [DefaultEvery].
	Every time.Duration
	// Records is how many jobs, pending and finished runs a node may own: one that owns more takes no more
	// jobs. They are in its memory. Default [DefaultRecords].
	Records int
	// Partitions is P of a new store; 0 = [store.DefaultPartitions]. An existing store keeps its own.
	Partitions int
	// MACKey and Epoch are those of a new store, Existing allows none: see [store.Options].
	MACKey   []byte
	Epoch    uint64
	Existing bool
	AsIs     bool // see [store.Options]
	// Timeout is how long an answer may take; what was asked for is then unknown. Default 10 s.
	Timeout time.Duration
	// Clock is the store's clock: this node's, corrected by the dates of the bucket's answers. Default: this
	// node's alone.
	Clock *serverclock.Clock
	// Now is this node's clock. Default time.Now.
	Now func() time.Time
	// Events are called on failures of writes, Log gets what operators should know.
	Events store.Events
	Log    store.Logger // default: no log

	grace time.Duration
	pace  pace
}

const (
	// DefaultRecords is the default of [Options.Records]: some 2 GB of memory.
	DefaultRecords = 2_000_000
	// DefaultEvery is the default of [Options.Every]: 10 writes a second at most.
	DefaultEvery = 100 * time.Millisecond

	defaultPrefix  = "carillon"
	defaultTimeout = 10 * time.Second
)

// withDefaults fills in the defaults and checks the rest.
func (o Options) withDefaults() (Options, error) {
	o.Prefix = cmp.Or(o.Prefix, defaultPrefix)
	o.Every = cmp.Or(o.Every, DefaultEvery)
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.Partitions = cmp.Or(o.Partitions, store.DefaultPartitions)
	o.Records = cmp.Or(o.Records, DefaultRecords)
	o.grace = cmp.Or(o.grace, usualGrace)
	o.pace = cmp.Or(o.pace, usualPace)
	o.Log = cmp.Or[store.Logger](o.Log, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Clock = cmp.Or(o.Clock, serverclock.New(o.Now))
	switch {
	case o.Bucket == nil:
		return o, errors.New("store: no bucket is given")
	case strings.HasPrefix(o.Prefix, "/") || strings.HasSuffix(o.Prefix, "/"):
		return o, fmt.Errorf("store: the prefix %q of a bucket must not begin or end with a slash", o.Prefix)
	case o.Records < 0 || o.Every < 0:
		return o, errors.New("store: Options.Records and Options.Every must not be negative")
	}
	return o, store.CheckPartitions(o.Partitions)
}
