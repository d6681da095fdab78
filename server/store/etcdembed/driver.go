package etcdembed

import (
	"context"

	"github.com/carillonhq/carillon/server/store"
)

func init() {
	store.Register(store.Driver{
		Schemes: []string{scheme}, Form: `"etcd-embed:DIR?member=…&peers=…" (an etcd in this process)`, Shared: true,
		Check: checkURL, Open: openURL,
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
	opt.Store.Partitions, opt.Store.Now, opt.Store.Events, opt.Store.Log = o.Partitions, o.Now, o.Events, o.Log
	s, err := Open(ctx, opt)
	if err != nil {
		return nil, err // not s, which would be a nil *Store in an interface
	}
	return s, nil
}
