package engine

import (
	"cmp"
	"context"
	"fmt"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// ListNamespaces reads the namespaces of all partitions in name order, as the store alone has them: those
// with a job and those with settings. A pending run has its job beside it, so jobs are enough. Settings that
// were put and are all back at their defaults do not count, but take a place on their page: what a page reads
// is bounded.
func (ns *namespaces) ListNamespaces(ctx context.Context,
	q carillon.NamespaceQuery) (page carillon.NamespacePage, err error) {
	if err := q.Validate(); err != nil {
		return page, err
	}
	pages, size := namespacePages(ns.partitions.macKey), cmp.Or(q.PageSize, defaultPage)
	after, err := pages.Place(q.PageToken)
	if err != nil {
		return page, err
	}
	parts := len(ns.partitions.parts)
	sources := make([]*namespaceSource, 2*parts)
	err = sideBySide(len(sources), func(i int) error {
		shard := ns.partitions.shards[i%parts]
		sources[i] = &namespaceSource{after: string(after), read: namespacesWithJobs(shard, size+1)}
		if i >= parts {
			sources[i].read = namespacesWithSettings(shard, 2*size/parts+8) // a name is in one partition only
		}
		return sources[i].refill(ctx)
	})
	if err != nil {
		return page, err
	}
	last, bytes := "", 0
	for places := 0; ; places++ {
		next, found := firstNamespace(sources)
		if bytes += sizeOf(&next.settings); !found || places > 0 && (places == size || bytes > pageBytes) {
			if found {
				page.NextPageToken = pages.At([]byte(last))
			}
			return page, nil
		}
		if next.hasJobs || next.settings.Strict || len(next.settings.ConcurrencyLimits) > 0 {
			page.Namespaces = append(page.Namespaces, next.settings)
		}
		last = next.settings.Name
		for _, s := range sources {
			if err := s.pass(ctx, last); err != nil {
				return page, err
			}
		}
	}
}

// listed is what one source has of a namespace, or several.
type listed struct {
	settings carillon.Namespace
	hasJobs  bool
}

// namespaceSource is one partition's part of the list: the namespaces of its jobs, or its settings.
type namespaceSource struct {
	read  func(ctx context.Context, after string) (some []listed, end bool, err error)
	after string
	next  []listed
	end   bool
}

// refill reads the next few of a source that has none.
func (s *namespaceSource) refill(ctx context.Context) (err error) {
	if len(s.next) > 0 || s.end {
		return nil
	}
	if s.next, s.end, err = s.read(ctx, s.after); err != nil {
		return readError(err)
	}
	if n := len(s.next); n > 0 {
		s.after = s.next[n-1].settings.Name
	}
	return nil
}

// pass leaves a name behind.
func (s *namespaceSource) pass(ctx context.Context, name string) error {
	if len(s.next) == 0 || s.next[0].settings.Name != name {
		return nil
	}
	s.next = s.next[1:]
	return s.refill(ctx)
}

// firstNamespace returns all that the sources have of the name that comes next; found is false at the end.
func firstNamespace(sources []*namespaceSource) (first listed, found bool) {
	for _, s := range sources {
		if len(s.next) == 0 {
			continue
		}
		n := s.next[0]
		switch {
		case !found || n.settings.Name < first.settings.Name:
			first, found = n, true
		case n.settings.Name == first.settings.Name:
			first.hasJobs = first.hasJobs || n.hasJobs
			if n.settings.Generation > 0 {
				first.settings = n.settings
			}
		}
	}
	first.settings.Generation = max(first.settings.Generation, 1)
	return first, found
}

// namespacesWithJobs reads the namespaces that have jobs in a partition.
func namespacesWithJobs(shard store.Shard, limit int) func(context.Context, string) ([]listed, bool, error) {
	return func(ctx context.Context, after string) ([]listed, bool, error) {
		records, err := shard.List(ctx, store.ListQuery{FirstOfEach: true, After: after, Limit: limit, MaxSpec: 1})
		out := make([]listed, len(records))
		for i := range records {
			out[i] = listed{settings: carillon.Namespace{Name: records[i].Namespace}, hasJobs: true}
		}
		return out, len(records) < limit, err
	}
}

// namespacesWithSettings reads the settings of namespaces that a partition keeps.
func namespacesWithSettings(shard store.Shard,
	limit int) func(context.Context, string) ([]listed, bool, error) {
	return func(ctx context.Context, after string) ([]listed, bool, error) {
		records, err := shard.MetaRecords(ctx,
			store.MetaQuery{Kind: store.KindNamespace, After: after, Limit: limit})
		if err != nil {
			return nil, false, err
		}
		out := make([]listed, len(records))
		for i, r := range records {
			n, err := codec.DecodeNamespace(r.Value, r.Key)
			if err != nil {
				return nil, false, fmt.Errorf("settings of namespace %q: %w", r.Key, err)
			}
			n.Generation = max(n.Generation, 1) // records written before there were generations have 0
			out[i] = listed{settings: n}
		}
		return out, len(records) < limit, nil
	}
}

// sizeOf is about how many bytes the settings have in a message.
func sizeOf(n *carillon.Namespace) int {
	const each = 16 // tags, lengths, a number
	size := len(n.Name) + 2*each
	for key := range n.ConcurrencyLimits {
		size += len(key) + each
	}
	return size
}
