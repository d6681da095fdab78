package cassandra

import (
	"context"

	"github.com/carillonhq/carillon/server/store"
)

func init() {
	store.Register(store.Driver{
		Schemes: []string{"cassandra", "cassandras"}, Form: `"cassandra://host:port,…" (Apache Cassandra)`,
		Shared: true, Check: checkURL, Open: openURL,
		Redact: func(url string) string { return store.RedactURL(url, true) }, // no parameter is a secret
	})
}

func checkURL(url string) error {
	_, err := ParseURL(url)
	return err
}

func openURL(ctx context.Context, url string, o store.Options) (store.Store, error) {
	opt, err := ParseURL(url)
	if err != nil {
		return nil, err
	}
	opt.Partitions, opt.Now, opt.Events, opt.Log = o.Partitions, o.Now, o.Events, o.Log
	s, err := Open(ctx, opt)
	if err != nil {
		return nil, err // not s, which would be a nil *Store in an interface
	}
	return s, nil
}
