package engine

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store"
)

const defaultPage = 100

// pageSize checks and completes a page size.
func pageSize(n int) (int, error) {
	switch {
	case n == 0:
		return defaultPage, nil
	case n < 0 || n > carillon.MaxBatch:
		return 0, carillon.Errorf(carillon.InvalidArgument, "page_size", "%d is not between 1 and %d", n, carillon.MaxBatch)
	}
	return n, nil
}

// ListJobs reads jobs of all partitions in name order, as the store has them: that an attempt has just been handed out shows
// about a second later.
func (e *Engine) ListJobs(ctx context.Context, q carillon.JobQuery) (carillon.JobPage, error) {
	size, err := pageSize(q.PageSize)
	if err != nil {
		return carillon.JobPage{}, err
	}
	after, err := base64.RawURLEncoding.DecodeString(q.PageToken)
	if err != nil {
		return carillon.JobPage{}, carillon.Errorf(carillon.InvalidArgument, "page_token", "this is not a page token")
	}
	if q.Namespace == "" {
		q.Namespace = carillon.DefaultNamespace
	}
	sq := store.ListQuery{Namespace: q.Namespace, Prefix: q.Prefix, After: string(after), Label: q.Label, Phase: q.Phase,
		MaxSpec: partition.InlineSpec}
	m, err := e.newMerge(ctx, sq, size)
	if err != nil {
		return carillon.JobPage{}, err
	}
	return m.page(ctx, size)
}

// pageToken is where the page after these jobs begins.
func pageToken(jobs []carillon.Job) string {
	return base64.RawURLEncoding.EncodeToString([]byte(jobs[len(jobs)-1].Name))
}

// ListRuns reads finished runs, newest first; see [carillon.Runs].
func (e *Engine) ListRuns(ctx context.Context, q carillon.RunQuery) (carillon.RunPage, error) {
	size, err := pageSize(q.PageSize)
	if err != nil {
		return carillon.RunPage{}, err
	}
	if q.Namespace == "" {
		q.Namespace = carillon.DefaultNamespace
	}
	cursors, err := parseCursors(q.PageToken)
	if err != nil {
		return carillon.RunPage{}, err
	}
	sq := store.RunQuery{Namespace: q.Namespace, Status: q.Status, Limit: size + 1}
	parts := e.parts
	if q.Job != "" {
		key := carillon.Key{Namespace: q.Namespace, Name: q.Job}
		if err := carillon.ValidateKey(key); err != nil {
			return carillon.RunPage{}, err
		}
		sq.Job, parts = &key, []*owned{e.partitionOf(key)}
	} else if q.Status == nil || *q.Status != carillon.RunDead {
		return carillon.RunPage{}, carillon.Errorf(carillon.InvalidArgument, "status",
			"runs across jobs can be listed with status dead only; name a job for the others")
	}
	return e.mergeRuns(ctx, parts, sq, cursors, size)
}

// mergeRuns reads a page of several partitions, newest first.
func (e *Engine) mergeRuns(ctx context.Context, parts []*owned, q store.RunQuery, cursors map[int][]byte, size int) (carillon.RunPage, error) {
	all, err := e.runsOf(ctx, parts, q, cursors)
	if err != nil {
		return carillon.RunPage{}, err
	}
	if len(parts) > 1 {
		slices.SortStableFunc(all, func(a, b store.RunRecord) int { return int(min(max(b.Finished-a.Finished, -1), 1)) })
	}
	var page carillon.RunPage
	more := len(all) > size
	all = all[:min(size, len(all))]
	for i := range all {
		page.Runs = append(page.Runs, partition.RunOf(&all[i]))
		cursors[int(all[i].ID.Partition)] = all[i].Cursor
	}
	if more {
		token, err := json.Marshal(cursors)
		if err != nil {
			return page, err
		}
		page.NextPageToken = base64.RawURLEncoding.EncodeToString(token)
	}
	return page, nil
}

// runsOf reads runs of several partitions; they stand in the order of the partitions.
func (e *Engine) runsOf(ctx context.Context, parts []*owned, q store.RunQuery, cursors map[int][]byte) ([]store.RunRecord, error) {
	read := make([][]store.RunRecord, len(parts))
	err := sideBySide(len(parts), func(i int) error {
		shard, err := e.reader(parts[i])
		if err != nil {
			return err
		}
		q := q
		q.After = cursors[parts[i].number]
		if read[i], err = shard.Runs(ctx, q); err != nil {
			return readError(err)
		}
		return nil
	})
	return slices.Concat(read...), err
}

// parseCursors reads a page token of runs: how far each partition has been read.
func parseCursors(token string) (map[int][]byte, error) {
	cursors := map[int][]byte{}
	if token == "" {
		return cursors, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		err = json.Unmarshal(raw, &cursors)
	}
	if err != nil || cursors == nil { // nil: it says null
		return nil, carillon.Errorf(carillon.InvalidArgument, "page_token", "this is not a page token")
	}
	return cursors, nil
}
