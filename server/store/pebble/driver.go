package pebble

import (
	"context"
	"fmt"
	"strings"

	"github.com/carillonhq/carillon/server/store"
)

func init() {
	store.Register(store.Driver{
		Schemes: []string{scheme}, Form: `"pebble:DIR" (a folder of this machine)`, Check: checkURL, Open: openURL,
		Folder: folderOf,
	})
}

const scheme = "pebble"

func checkURL(url string) error {
	if folderOf(url) == "" {
		return fmt.Errorf("store: %q names no folder; write pebble:DIR", url)
	}
	return nil
}

func folderOf(url string) string { return strings.TrimPrefix(url, scheme+":") }

func openURL(_ context.Context, url string, o store.Options) (store.Store, error) {
	if err := checkURL(url); err != nil {
		return nil, err
	}
	s, err := Open(folderOf(url), OptionsOf(o))
	if err != nil {
		return nil, err // not s, which would be a nil *Store in an interface
	}
	return s, nil
}

// OptionsOf returns the options of a folder for those of any store.
func OptionsOf(o store.Options) Options {
	return Options{Partitions: o.Partitions, MACKey: o.MACKey, Epoch: o.Epoch, Existing: o.Existing,
		AsIs: o.AsIs, Now: o.Now, Events: o.Events, Log: o.Log}
}
