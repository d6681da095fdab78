package azblob

import (
	"context"

	"github.com/carillonhq/carillon/server/store/object"
	"github.com/carillonhq/carillon/server/store/object/bucket"
)

const scheme = "azblob"

func init() {
	object.Register(scheme, `"azblob://CONTAINER/PREFIX" (a container of Azure Blob Storage)`,
		func(url string) (object.Connect, object.Options, error) {
			o, to, err := ParseURL(url)
			return o.connect, to, err
		})
}

// ParseURL reads options from a URL: azblob://CONTAINER[/PREFIX][?account=NAME][&endpoint=URL]
// [&commit-every=D][&records=N]. Credentials come from the environment: see [Options.Key].
func ParseURL(text string) (Options, object.Options, error) {
	u, err := object.ParseURL(text, scheme, "account", "endpoint")
	if err != nil {
		return Options{}, object.Options{}, err
	}
	o := Options{Container: u.Bucket, Account: u.Parameters.Get("account")}
	o.Endpoint, err = u.Endpoint()
	return o, u.Options, err
}

// Open opens the store in a container.
func Open(ctx context.Context, o Options, to object.Options) (*object.Store, error) {
	return object.OpenIn(ctx, o.connect, to)
}

// connect is an [object.Connect].
func (o Options) connect(ctx context.Context, w *bucket.Watch) (bucket.Bucket, error) {
	return New(ctx, o, w)
}
