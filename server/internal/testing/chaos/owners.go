package chaos

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/checker"
	"github.com/carillonhq/carillon/server/store"
	_ "github.com/carillonhq/carillon/server/store/azblob" // what clusters have
	_ "github.com/carillonhq/carillon/server/store/cassandra"
	_ "github.com/carillonhq/carillon/server/store/etcd"
	_ "github.com/carillonhq/carillon/server/store/gcs"
	_ "github.com/carillonhq/carillon/server/store/postgres"
	_ "github.com/carillonhq/carillon/server/store/redis"
	_ "github.com/carillonhq/carillon/server/store/s3"
)

// OpenStore opens the store of a cluster, to look at it beside the nodes.
func OpenStore(ctx context.Context, url string, partitions int) (store.Store, error) {
	return store.Open(ctx, url, store.Options{Partitions: partitions})
}

// Observer looks again and again at who owns what, as the store has it, and notes what changes. One epoch may
// escape it if two follow each other faster than it looks.
type Observer struct {
	store   store.Store
	stale   time.Duration
	changed func(from, to time.Time, before, now store.Owner)

	stop    context.CancelFunc
	looking sync.WaitGroup

	mu   sync.Mutex
	last []store.Owner
	at   time.Time // as of when last is, at least
	err  error
}

// lookEvery is how often the observer looks.
const lookEvery = 20 * time.Millisecond

// Observe begins. What the store says may be stale, as [Backend.Stale] says. changed may be nil; it is told
// between which moments of this process's clock an owner or a term changed.
func Observe(s store.Store, stale time.Duration,
	changed func(from, to time.Time, before, now store.Owner)) *Observer {
	ctx, cancel := context.WithCancel(context.Background())
	o := &Observer{store: s, stale: stale, changed: changed, stop: cancel}
	o.looking.Go(func() {
		for before := time.Now().Add(-stale); ; {
			before = o.look(ctx, before)
			if pause(ctx, lookEvery) != nil {
				return
			}
		}
	})
	return o
}

// Close ends it, and closes the store.
func (o *Observer) Close() error {
	o.stop()
	o.looking.Wait()
	return o.store.Close()
}

// look reads the owners once, and returns from when the next look counts.
func (o *Observer) look(ctx context.Context, before time.Time) time.Time {
	begin := time.Now().Add(-o.stale)
	asking, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	now, err := o.store.Leaser().Owners(asking)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err = err; err != nil {
		return before // the store is away
	}
	known := map[int]store.Owner{}
	for _, x := range o.last {
		known[x.Partition] = x
	}
	for _, x := range now {
		if was := known[x.Partition]; o.changed != nil && (was.Term != x.Term || was.Node != x.Node) {
			o.changed(before, time.Now(), was, x)
		}
	}
	o.last, o.at = now, begin
	return begin
}

// Owners is who owns what, as it was at a moment.
func (o *Observer) Owners() (owners []store.Owner, at time.Time, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last, o.at, o.err
}

// Until waits until the owners are as wanted.
func (o *Observer) Until(ctx context.Context, what string, wanted func([]store.Owner) bool) error {
	for asked := time.Now(); ; {
		owners, at, err := o.Owners()
		if err == nil && at.After(asked) && wanted(owners) {
			return nil
		}
		if pause(ctx, lookEvery) != nil {
			return fmt.Errorf("the partitions are not %s: %v, %w", what, owners, err)
		}
	}
}

// claims notes each claim in a history.
func claims(record *checker.Recorder) func(from, to time.Time, before, now store.Owner) {
	return func(from, to time.Time, before, now store.Owner) {
		if now.Node != "" && now.Term != before.Term {
			record.Claim(checker.Claim{Partition: now.Partition, Epoch: now.Term.Epoch,
				Nonce: now.Term.Nonce, Node: now.Node, Invoke: from, Return: to})
		}
	}
}
