package s3

import (
	"context"

	"github.com/carillonhq/carillon/server/store/object"
	"github.com/carillonhq/carillon/server/store/object/bucket"
)

const scheme = "s3"

func init() {
	object.Register(scheme, `"s3://BUCKET/PREFIX" (a bucket of S3)`,
		func(url string) (object.Connect, object.Options, error) {
			o, to, err := ParseURL(url)
			return o.connect, to, err
		})
}

// ParseURL reads options from a URL: s3://BUCKET[/PREFIX][?region=R][&endpoint=URL][&path-style=yes]
// [&commit-every=D][&records=N]. Credentials come from the environment, as the AWS SDK finds them.
func ParseURL(text string) (Options, object.Options, error) {
	u, err := object.ParseURL(text, scheme, "region", "endpoint", "path-style")
	if err != nil {
		return Options{}, object.Options{}, err
	}
	o := Options{Bucket: u.Bucket, Region: u.Parameters.Get("region")}
	if o.Endpoint, err = u.Endpoint(); err != nil {
		return o, u.Options, err
	}
	o.PathStyle, err = u.YesNo("path-style")
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
