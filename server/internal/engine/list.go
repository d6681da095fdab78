package engine

import (
	"cmp"
	"context"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

const defaultPage = 100

// ListJobs reads jobs of all partitions in name order, as the store alone has them. It shows an attempt
// about a second after it was handed out. merge.go merges what the partitions have. Labels and the phase
// scheduled have no index: a page examines a bounded number of jobs, and may hold few or none of them.
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
		Phase: q.Phase, MaxSpec: partition.InlineSpec}
	if !sq.ByPhase() {
		sq.Phase = nil
	}
	size := q.PageSize
	if q.Label != "" {
		size = max(size, mostExamined/2)
	}
	m, err := j.partitions.mergeJobs(ctx, sq, size)
	if err != nil {
		return carillon.JobPage{}, err
	}
	l := jobList{partitions: j.partitions, q: &q}
	more, err := l.read(ctx, m, j.partitions.now())
	page := carillon.JobPage{Jobs: l.page}
	if more {
		page.NextPageToken = pages.At([]byte(l.last))
	}
	return page, err
}

// jobList is a page of a list of jobs while it is read.
type jobList struct {
	partitions *partitions
	q          *carillon.JobQuery
	page       []carillon.Job
	examined   int
	bytes      int    // of the specs examined
	last       string // name of the last job examined
}

// read reads jobs, as they stand at an instant, until the page is full or the list ends. more reports whether
// others follow.
func (l *jobList) read(ctx context.Context, m *jobMerge, now int64) (more bool, err error) {
	for s := m.first(); s != nil; s = m.first() {
		if len(l.page) == l.q.PageSize || l.examined == mostExamined {
			return true, nil
		}
		number, name := s.number, s.next[0].Name
		r, err := l.examine(ctx, s)
		if err != nil {
			return false, err
		}
		if l.bytes > pageBytes && l.examined > 0 {
			return true, nil
		}
		l.examined, l.last = l.examined+1, name
		if err := m.pass(ctx); err != nil {
			return false, err
		}
		if !r.Exists || !codec.MatchLabel(r.Spec, l.q.Label) {
			continue
		}
		j, err := jobOf(&r, number, l.partitions.calendars)
		if err != nil {
			return false, err
		}
		j.Status.Hold = inList(&j, &r.State, now)
		l.page = append(l.page, j)
	}
	return false, nil
}

// examine returns the next record of a source with its spec. It does not exist if it has another phase than
// is asked for, or was deleted while the list was read.
func (l *jobList) examine(ctx context.Context, s *source[store.Record]) (store.Record, error) {
	if l.q.Phase != nil && s.next[0].State.Phase != *l.q.Phase {
		return store.Record{}, nil
	}
	r, err := whole(ctx, s)
	l.bytes += len(r.Spec)
	return r, err
}
