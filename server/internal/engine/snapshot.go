package engine

import (
	"context"
	"fmt"

	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// maxParkedQueues bounds the list of queues with parked runs that is read at takeover.
const maxParkedQueues = 100_000

// readSnapshot reads what the machine of a new term must know.
func readSnapshot(ctx context.Context, number int, shard store.Shard) (*partition.Snapshot, error) {
	parked, err := shard.MetaRecords(ctx, store.MetaQuery{Kind: store.KindParked, Limit: maxParkedQueues})
	if err != nil {
		return nil, err
	}
	s := &partition.Snapshot{Parked: parked}
	if number == partition.Home {
		if err := readHome(ctx, shard, s); err != nil {
			return nil, err
		}
	}
	for _, part := range []struct {
		to    *[]store.MetaRecord
		query store.MetaQuery
	}{
		{&s.Dependencies, store.MetaQuery{Kind: store.KindDependency}},
		{&s.Notices, store.MetaQuery{Kind: store.KindNotice}},
		{&s.Applied, store.MetaQuery{Kind: store.KindApplied}},
		{&s.Commands, store.MetaQuery{Kind: store.KindCommand}},
		{&s.AuditChains, store.MetaQuery{Kind: store.KindAuditChain}},
		{&s.Limited, store.MetaQuery{Kind: store.KindLimited}},
		{&s.Backfills, store.MetaQuery{Kind: store.KindBackfill, Prefix: partition.UnfinishedBackfills}},
	} {
		if *part.to, err = AllMetaRecords(ctx, shard, part.query); err != nil {
			return nil, err
		}
	}
	if s.Watched, err = shard.MetaRecords(ctx, store.MetaQuery{Kind: store.KindWatched, Limit: 1}); err != nil {
		return nil, err
	}
	if w, err := partition.ReadWatched(s.Watched); err == nil && len(s.Watched) > 0 {
		if s.Events, err = AllMetaRecords(ctx, shard, partition.AfterMarks(&w)); err != nil {
			return nil, err
		}
	}
	if len(s.Limited) > 0 {
		s.InForce, err = shard.Read(ctx, partition.LimitedRefs(s.Limited))
	}
	return s, err
}

// readHome reads what only the partition Home keeps.
func readHome(ctx context.Context, shard store.Shard, s *partition.Snapshot) error {
	paused, err := AllMetaRecords(ctx, shard, store.MetaQuery{Kind: store.KindQueue})
	if err != nil {
		return err
	}
	if s.PausedQueues, err = partition.DecodePausedQueues(paused); err != nil {
		return err
	}
	keys, err := AllMetaRecords(ctx, shard, store.MetaQuery{Kind: store.KindKey})
	if err != nil {
		return err
	}
	// A damaged one opens nothing, and keeps nobody from owning the partition. AccessKeys and doctor tell of it.
	s.Keys, _ = partition.DecodeKeys(keys)
	told, err := AllMetaRecords(ctx, shard, store.MetaQuery{Kind: store.KindTold})
	if err != nil {
		return err
	}
	s.Told, err = partition.DecodeTold(told)
	return err
}

// metaRecordsAtOnce is how many metadata records are read at a time.
const metaRecordsAtOnce = 1000

// AllMetaRecords reads all metadata records that the query selects, page by page. It ignores the query's
// limit.
func AllMetaRecords(ctx context.Context, shard store.Shard, q store.MetaQuery) (all []store.MetaRecord,
	err error) {
	q.Limit = metaRecordsAtOnce
	for {
		page, err := shard.MetaRecords(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("metadata records of kind %q: %w", q.Kind, err)
		}
		all = append(all, page...)
		if len(page) < q.Limit {
			return all, nil
		}
		q.After = page[len(page)-1].Key
	}
}
