package engine

import (
	"context"
	"sync/atomic"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// keptSettings are the settings and calendars of the namespaces that one partition keeps in its store. The
// partition's owner reads them when its term begins, and puts them; other nodes follow. Any goroutine may
// read; only the lane's puts.
type keptSettings struct {
	reader store.Shard // of the partition, without a term
	all    *settings
	keeps  func(namespace string) bool // whether a namespace's settings are kept here
	owned  func() bool                 // whether this node owns the partition
	// Settings have changed.
	changed func(namespace string)

	reading turn          // held while they are read
	taken   atomic.Uint64 // how often they were read or put
	begun   atomic.Uint64 // how often a read of a remote partition's settings has begun
	err     error         // how the last one ended; guarded by reading

	// The newest that are on their way to the store, by name. A put is compared with these: of two concurrent
	// puts meant for the same generation, only one may succeed. At the end of a term none is left.
	unsettled map[string]*carillon.Namespace
	// The same of calendars.
	unsettledCalendars map[carillon.Key]*calendar
}

// kept is what a partition's store has: settings of namespaces by name, and calendars by namespace and name.
type kept struct {
	namespaces map[string]*carillon.Namespace
	calendars  map[string]map[string]*calendar
}

// load reads the settings for the owner of a new term.
func (k *keptSettings) load(ctx context.Context, shard store.Shard) error {
	k.reading.take()
	defer k.reading.give()
	read, err := k.read(ctx, shard)
	if err == nil {
		k.take(read)
	}
	return err
}

// read returns what is in the partition's store.
func (k *keptSettings) read(ctx context.Context, shard store.Shard) (*kept, error) {
	records, err := AllMetaRecords(ctx, shard, store.MetaQuery{Kind: store.KindNamespace})
	if err != nil {
		return nil, err
	}
	calendars, err := AllMetaRecords(ctx, shard, store.MetaQuery{Kind: store.KindCalendar})
	if err != nil {
		return nil, err
	}
	return decodeKept(records, calendars)
}

// decodeKept decodes what was read.
func decodeKept(settings, calendars []store.MetaRecord) (*kept, error) {
	namespaces, err := decodeSettings(settings)
	if err != nil {
		return nil, err
	}
	decoded, err := decodeCalendars(calendars)
	return &kept{namespaces, decoded}, err
}

// take takes over what was read, unless this node owns the partition: the owner's are newer.
func (k *keptSettings) take(read *kept) {
	k.taken.Add(1)
	for _, name := range k.all.replace(k.keeps, read, k.owned) {
		k.changed(name)
	}
}

// takeGathered is take for what was read with the settings of other partitions, when taken was as
// before. What has been read or put meanwhile may be newer.
func (k *keptSettings) takeGathered(read *kept, before uint64) {
	k.reading.take()
	defer k.reading.give()
	if k.taken.Load() == before {
		k.take(read)
	}
}

// follow reads the settings, unless this node owns the partition.
func (k *keptSettings) follow(ctx context.Context) error {
	k.reading.take() // what is read later is newer
	defer k.reading.give()
	return k.followNow(ctx)
}

// followShared is follow for many concurrent callers: one read serves all who came before it began.
func (k *keptSettings) followShared(ctx context.Context) error {
	begun := k.begun.Load()
	k.reading.take()
	defer k.reading.give()
	if k.begun.Load() > begun {
		return k.err
	}
	return k.followNow(ctx)
}

// followNow is follow for a caller that holds reading.
func (k *keptSettings) followNow(ctx context.Context) (err error) {
	k.begun.Add(1)
	defer func() { k.err = err }()
	read, err := k.read(ctx, k.reader)
	if err == nil {
		k.take(read)
	}
	return err
}

// put takes settings that are sent to the store. settled must be called with the outcome, before the caller
// is answered; they are in force once they are durable.
func (k *keptSettings) put(n *carillon.Namespace) (settled func(failed error)) {
	if k.unsettled == nil {
		k.unsettled = map[string]*carillon.Namespace{}
	}
	k.unsettled[n.Name] = n
	return func(failed error) {
		if k.unsettled[n.Name] == n {
			delete(k.unsettled, n.Name)
		}
		if failed == nil {
			k.taken.Add(1)
			k.all.set(n)
			k.changed(n.Name)
		}
	}
}
