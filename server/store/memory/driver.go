package memory

import (
	"context"
	"errors"

	"github.com/carillonhq/carillon/server/store"
)

func init() {
	store.Register(store.Driver{
		Schemes: []string{"memory"}, Form: `"memory:" (nothing is kept)`, Check: checkURL, Open: openURL,
	})
}

func checkURL(url string) error {
	if url != "memory:" {
		return errors.New("store: the URL says too much: it is \"memory:\"")
	}
	return nil
}

func openURL(_ context.Context, url string, o store.Options) (store.Store, error) {
	if err := checkURL(url); err != nil {
		return nil, err
	}
	if o.Existing {
		return nil, store.ErrNoStore
	}
	return New(Options{Partitions: o.Partitions, MACKey: o.MACKey, Epoch: o.Epoch, Now: o.Now}), nil
}
