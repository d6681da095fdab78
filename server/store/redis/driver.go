package redis

import (
	"context"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/storeurl"
)

func init() {
	store.Register(store.Driver{
		Schemes: []string{"redis", "rediss"}, Form: `"redis://…" (Redis, or a Redis Cluster)`, Shared: true,
		Check: checkURL, Open: openURL,
		Unverified: unverified,
		Redact:     func(url string) string { return store.RedactURL(url, true) }, // no parameter is a secret
	})
}

func checkURL(url string) error {
	_, err := ParseURL(url)
	return err
}

// unverified returns a server beyond this machine that is reached without TLS.
func unverified(url string) string {
	o, err := ParseURL(url)
	if err != nil {
		return "" // it is valid
	}
	return storeurl.Unverified(o.TLS, o.Addresses...)
}

func openURL(ctx context.Context, url string, o store.Options) (store.Store, error) {
	opt, err := ParseURL(url)
	if err != nil {
		return nil, err
	}
	opt.Partitions, opt.MACKey, opt.Epoch, opt.Existing = o.Partitions, o.MACKey, o.Epoch, o.Existing
	opt.AsIs = o.AsIs
	opt.Events, opt.Log = o.Events, o.Log
	s, err := Open(ctx, opt)
	if err != nil {
		return nil, err // not s, which would be a nil *Store in an interface
	}
	return s, nil
}
