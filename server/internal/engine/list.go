package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

const defaultPage = 100

// ListJobs reads jobs of all partitions in name order, as the store alone has them. It shows an attempt
// about a second after it was handed out. merge.go merges what the partitions have.
func (j *jobs) ListJobs(ctx context.Context, q carillon.JobQuery) (carillon.JobPage, error) {
	if err := q.Validate(); err != nil {
		return carillon.JobPage{}, err
	}
	q.Namespace, q.PageSize = namespaceOf(q.Namespace), cmp.Or(q.PageSize, defaultPage)
	pages := jobPages(j.partitions.macKey, &q)
	after, err := pages.Place(q.PageToken)
	if err != nil {
		return carillon.JobPage{}, err
	}
	sq := store.ListQuery{Namespace: q.Namespace, Prefix: q.Prefix, After: string(after),
		Label: q.Label, Phase: q.Phase, MaxSpec: partition.InlineSpec}
	m, err := j.partitions.newMerge(ctx, sq, q.PageSize)
	if err != nil {
		return carillon.JobPage{}, err
	}
	page, more, err := m.page(ctx, q.PageSize)
	if more {
		page.NextPageToken = pages.At([]byte(page.Jobs[len(page.Jobs)-1].Name))
	}
	return page, err
}

// ListRuns reads finished runs, newest first; see [carillon.Runs].
func (rs *runs) ListRuns(ctx context.Context, q carillon.RunQuery) (carillon.RunPage, error) {
	if err := q.Validate(); err != nil {
		return carillon.RunPage{}, err
	}
	q.Namespace, q.PageSize = namespaceOf(q.Namespace), cmp.Or(q.PageSize, defaultPage)
	pages := runPages(rs.partitions.macKey, &q)
	place, err := pages.Place(q.PageToken)
	if err != nil {
		return carillon.RunPage{}, err
	}
	cursors := map[int][]byte{} // by partition, how far it has been read
	if place != nil {
		if err := json.Unmarshal(place, &cursors); err != nil {
			return carillon.RunPage{}, fmt.Errorf("a page token of this store: %w", err)
		}
	}
	sq := store.RunQuery{Namespace: q.Namespace, Status: q.Status, Limit: q.PageSize + 1}
	parts := rs.partitions.parts
	if q.Job != "" {
		key := carillon.Key{Namespace: q.Namespace, Name: q.Job}
		sq.Job, parts = &key, []*partitionRunner{rs.partitions.of(key)}
	}
	page, more, err := rs.mergeRuns(ctx, parts, sq, cursors, q.PageSize)
	if !more {
		return page, err
	}
	if place, err = json.Marshal(cursors); err != nil {
		return page, err
	}
	page.NextPageToken = pages.At(place)
	return page, nil
}

// mergeRuns reads a page of several partitions, newest first, and advances their cursors. more reports
// whether others follow.
func (rs *runs) mergeRuns(ctx context.Context, parts []*partitionRunner, q store.RunQuery,
	cursors map[int][]byte, size int) (
	page carillon.RunPage, more bool, err error,
) {
	read := make([][]store.RunRecord, len(parts))
	err = sideBySide(len(parts), func(i int) error {
		q := q
		q.After = cursors[parts[i].number]
		var err error
		if read[i], err = rs.partitions.reader(parts[i]).Runs(ctx, q); err != nil {
			return readError(err)
		}
		return nil
	})
	if err != nil {
		return page, false, err
	}
	all := slices.Concat(read...)
	if len(parts) > 1 {
		slices.SortStableFunc(all, func(a, b store.RunRecord) int { return cmp.Compare(b.Finished, a.Finished) })
	}
	more = len(all) > size
	all = all[:min(size, len(all))]
	for i := range all {
		page.Runs = append(page.Runs, partition.RunOf(&all[i]))
		cursors[int(all[i].ID.Partition)] = all[i].Cursor
	}
	return page, more, nil
}
