package engine

import (
	"cmp"
	"context"

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
	m, err := j.partitions.mergeJobs(ctx, sq, q.PageSize)
	if err != nil {
		return carillon.JobPage{}, err
	}
	page, more, err := j.partitions.jobPage(ctx, m, q.PageSize, j.partitions.now())
	if more {
		page.NextPageToken = pages.At([]byte(page.Jobs[len(page.Jobs)-1].Name))
	}
	return page, err
}
