package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store"
)

// CreateKey makes a key, which must be valid, in a store on which no node runs. A store that is not there is
// created.
func CreateKey(ctx context.Context, url string, n carillon.NewKey) (created carillon.CreatedKey, err error) {
	s, err := store.Open(ctx, url, store.Options{})
	if err != nil {
		return created, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := transfer.Usable(ctx, s); err != nil {
		return created, err
	}
	frozen, work, err := transfer.Freeze(ctx, s)
	if err != nil {
		return created, err
	}
	defer func() { err = errors.Join(err, frozen.Thaw(ctx)) }()
	shard, err := s.Shard(partition.Home, frozen.Term(partition.Home))
	if err != nil {
		return created, err
	}
	has, err := engine.AllMetaRecords(work, shard, store.MetaQuery{Kind: store.KindKey})
	if err != nil {
		return created, err
	}
	if len(has) >= carillon.MaxKeys {
		return created, partition.TooManyKeys(len(has))
	}
	key, secret := access.New(n, "carillon key create", time.Now())
	b := &store.Batch{MetaRecords: []store.MetaRecord{partition.KeyRecord(&key)}}
	if err := shard.Apply(work, b); err != nil {
		return created, fmt.Errorf("write the key: %w", err)
	}
	return carillon.CreatedKey{Key: key.AccessKey, Secret: secret}, nil
}
