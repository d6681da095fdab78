package object

import (
	"context"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/object/bucket"
	"github.com/carillonhq/carillon/server/store/serverclock"
)

// Connect returns a bucket whose requests a watch sees.
type Connect func(ctx context.Context, w *bucket.Watch) (bucket.Bucket, error)

// OpenIn opens the store in the bucket of a connection, by whose answers it has its clock: o.Bucket and
// o.Clock are set.
func OpenIn(ctx context.Context, connect Connect, o Options) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Clock = serverclock.New(o.Now)
	w := &bucket.Watch{Clock: o.Clock}
	var err error
	if o.Bucket, err = connect(ctx, w); err != nil {
		return nil, err
	}
	return Open(ctx, o)
}

// Register registers the driver of the stores in buckets whose URLs have a scheme, and makes such buckets
// known to those who keep something else there ([bucket.Parse]). form shows people how they are written, and
// read reads one.
func Register(scheme, form string, read func(url string) (Connect, Options, error)) {
	bucket.Register(scheme, func(url string) (bucket.Place, error) {
		connect, o, err := read(url)
		if err == nil && (o.Every != 0 || o.Records != 0) {
			err = fmt.Errorf("%s: commit-every and records are about a store of jobs: leave them out", scheme)
		}
		return bucket.Place{Prefix: o.Prefix, Connect: connect}, err
	})
	store.Register(store.Driver{
		Schemes: []string{scheme}, Form: form, Shared: true, LeaseTTL: LeaseTTL, Unverified: unverified,
		Check: func(url string) error {
			_, _, err := read(url)
			return err
		},
		Open: func(ctx context.Context, url string, with store.Options) (store.Store, error) {
			connect, o, err := read(url)
			if err != nil {
				return nil, err
			}
			return openWith(ctx, connect, o, with)
		},
	})
}

// openWith is [OpenIn] for a [store.Driver]: o is what the URL says.
func openWith(ctx context.Context, connect Connect, o Options, with store.Options) (store.Store, error) {
	o.Partitions, o.MACKey, o.Epoch = with.Partitions, with.MACKey, with.Epoch
	o.Existing, o.AsIs = with.Existing, with.AsIs
	o.Now, o.Events, o.Log = with.Now, with.Events, with.Log
	s, err := OpenIn(ctx, connect, o)
	if err != nil {
		return nil, err // not s, which would be a nil *Store in an interface
	}
	return s, nil
}
