package etcdembed

import (
	"context"

	"github.com/carillonhq/carillon/server/store"
)

func init() {
	store.Register(store.Driver{
		Schemes: []string{scheme}, Form: `"etcd-embed:DIR?member=…&peers=…" (an etcd in this process)`, Shared: true,
		Check: checkURL, Open: openURL, Folder: folderOf,
	})
}

func folderOf(url string) string {
	o, _ := ParseURL(url) // a wrong one has none
	return o.Folder
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
	opt.Store.Partitions, opt.Store.Existing, opt.Store.AsIs = o.Partitions, o.Existing, o.AsIs
	opt.Store.MACKey, opt.Store.Epoch = o.MACKey, o.Epoch
	opt.Store.Now, opt.Store.Events, opt.Store.Log = o.Now, o.Events, o.Log
	s, err := Open(ctx, opt)
	if err != nil {
		return nil, err // not s, which would be a nil *Store in an interface
	}
	return s, nil
}
