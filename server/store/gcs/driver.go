package gcs

import (
	"context"

	"github.com/carillonhq/carillon/server/store/object"
	"github.com/carillonhq/carillon/server/store/object/bucket"
)

const scheme = "gs"

func init() {
	object.Register(scheme, `"gs://BUCKET/PREFIX" (a bucket of Google Cloud Storage)`,
		func(url string) (object.Connect, object.Options, error) {
			o, to, err := ParseURL(url)
			return o.connect, to, err
		})
}

// ParseURL reads options from a URL: gs://BUCKET[/PREFIX][?endpoint=URL][&anonymous=yes][&commit-every=D]
// [&records=N]. Credentials come from the environment, as Google's libraries find them.
func ParseURL(text string) (Options, object.Options, error) {
	u, err := object.ParseURL(text, scheme, "endpoint", "anonymous")
	if err != nil {
		return Options{}, object.Options{}, err
	}
	o := Options{Bucket: u.Bucket}
	if o.Endpoint, err = u.Endpoint(); err != nil {
		return o, u.Options, err
	}
	o.Anonymous, err = u.YesNo("anonymous")
	return o, u.Options, err
}

// Open opens the store in a bucket.
func Open(ctx context.Context, o Options, to object.Options) (*object.Store, error) {
	return object.OpenIn(ctx, o.connect, to)
}

// connect is an [object.Connect].
func (o Options) connect(ctx context.Context, w *bucket.Watch) (bucket.Bucket, error) {
	return New(ctx, o, w)
}
