package engine

import (
	"cmp"
	"context"
	"math"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// ranks is how many priorities there are.
const ranks = int(carillon.PriorityLow) + 1

// byTime is the section of the runs that are next in the order in which they are due. Due records of all
// namespaces are in one index.
func (l *runList) byTime(at runPlace) *runSection[store.Record] {
	if !l.asksFor(carillon.RunScheduled) || l.q.Job != "" {
		return nil
	}
	after := store.Cursor{Due: max(0, l.filter.from)}
	if at.Ref != nil {
		after = store.Cursor{Due: at.At, Ref: *at.Ref}
	}
	s := &runSection[store.Record]{merge: merge[store.Record]{compare: byDue}, show: l.showDue,
		place: func(r *store.Record) runPlace {
			return runPlace{Section: comingByTime, At: r.State.Due, Ref: &r.Ref}
		}}
	parts := l.partitions.parts
	for i := range ranks * len(parts) {
		shard := l.partitions.shards[i%len(parts)]
		q := store.DueQuery{Priority: uint8(i / len(parts)), After: after, Until: l.filter.until - 1,
			MaxSpec: partition.InlineSpec}
		s.sources = append(s.sources, &source[store.Record]{number: i % len(parts), shard: shard,
			size: l.readSize(len(parts)),
			read: func(ctx context.Context, last *store.Record, n int) ([]store.Record, bool, error) {
				q := q
				q.Limit = n
				if last != nil {
					q.After = store.Cursor{Due: last.State.Due, Ref: last.Ref}
				}
				records, err := shard.Due(ctx, q)
				return records, len(records) < q.Limit, err
			}})
	}
	return s
}

func byDue(a, b *store.Record) int {
	return cmp.Or(cmp.Compare(a.State.Due, b.State.Due), a.Compare(b.Ref))
}

// showDue shows a record of the due index whose time is that of a run that has not begun. The next run of a
// job whose run goes on is in comingByName.
func (l *runList) showDue(ctx context.Context, s *source[store.Record]) (r carillon.Run, ok bool, err error) {
	rec := &s.next[0]
	switch rec.State.Phase {
	case carillon.PhaseScheduled:
		return l.showNext(ctx, s)
	case carillon.PhaseReady:
		r, ok = partition.UnfinishedRun(rec.Key, &rec.State, s.number)
	}
	if !ok || rec.Namespace != l.q.Namespace {
		return r, false, nil
	}
	return l.match(ctx, s, r)
}

// byName is the section of the next runs of jobs that wait for others or have an unfinished run; of one job,
// of its next run.
func (l *runList) byName(at runPlace) *runSection[store.Record] {
	switch {
	case !l.asksFor(carillon.RunScheduled):
		return nil
	case l.q.Job != "":
		return l.ofOneJob(comingByName, at, false, l.showNext)
	}
	return l.byPhase(comingByName, at, false, l.showNext, carillon.PhaseWaiting, carillon.PhaseReady,
		carillon.PhaseStaged, carillon.PhaseRunning, carillon.PhaseRetrying)
}

// showNext shows the next run of a job, at the first time that its calendars do not exclude.
func (l *runList) showNext(ctx context.Context,
	s *source[store.Record]) (r carillon.Run, ok bool, err error) {
	rec := &s.next[0]
	if rec.Namespace != l.q.Namespace {
		return r, false, nil
	}
	if r, ok = partition.NextRun(rec.Key, &rec.State, s.number); !ok || !l.filter.mayMove(&r) {
		return r, false, nil
	}
	facts, err := l.factsOfNext(ctx, s)
	if err != nil || !facts.known {
		return r, false, err
	}
	if facts.dated != nil {
		r, ok = partition.AllowedRun(facts.dated, &rec.State, s.number, l.partitions.calendars)
	}
	if !ok || !l.filter.unfinished(&r) {
		return r, false, nil
	}
	ok = l.complete(&r, &facts)
	return r, ok, nil
}

// unfinished is the section of unfinished runs. Those that are ready have the status scheduled, and are in
// comingByTime if that is asked for.
func (l *runList) unfinished(at runPlace) *runSection[store.Record] {
	if l.q.Job != "" {
		return l.ofOneJob(unfinished, at, true, l.showUnfinished)
	}
	var phases []carillon.Phase
	for _, p := range []struct {
		phase  carillon.Phase
		status carillon.RunStatus
	}{{carillon.PhaseReady, carillon.RunScheduled}, {carillon.PhaseStaged, carillon.RunStaged},
		{carillon.PhaseRunning, carillon.RunRunning}, {carillon.PhaseRetrying, carillon.RunRetrying}} {
		if len(l.q.Statuses) == 0 || l.asksFor(p.status) && p.status != carillon.RunScheduled {
			phases = append(phases, p.phase)
		}
	}
	return l.byPhase(unfinished, at, true, l.showUnfinished, phases...)
}

func (l *runList) showUnfinished(ctx context.Context,
	s *source[store.Record]) (r carillon.Run, ok bool, err error) {
	r, ok = partition.UnfinishedRun(s.next[0].Key, &s.next[0].State, s.number)
	if !ok || len(l.q.Statuses) > 0 && !l.asksFor(r.Status) {
		return r, false, nil
	}
	return l.match(ctx, s, r)
}

// byPhase is a section of the records in some phases, in the order of their refs. A run that passes from one
// phase to another keeps its place.
func (l *runList) byPhase(section int, at runPlace, pending bool,
	show func(context.Context, *source[store.Record]) (carillon.Run, bool, error),
	phases ...carillon.Phase) *runSection[store.Record] {
	s := &runSection[store.Record]{merge: merge[store.Record]{compare: byRef}, show: show,
		place: func(r *store.Record) runPlace { return runPlace{Section: section, Ref: &r.Ref} }}
	for _, phase := range phases {
		q := store.ListQuery{Namespace: l.q.Namespace, Prefix: l.q.Prefix, Phase: &phase, Pending: pending,
			MaxSpec: partition.InlineSpec}
		if at.Ref != nil {
			q.Past(*at.Ref)
		}
		for i, shard := range l.partitions.shards {
			s.sources = append(s.sources, &source[store.Record]{number: i, shard: shard,
				read: l.withSpecs(shard, pagesOf(shard, q)), size: l.readSize(len(l.partitions.parts) * len(phases))})
		}
	}
	return s
}

// recordReader is how a source of records reads; see [source].
type recordReader func(ctx context.Context, last *store.Record, n int) ([]store.Record, bool, error)

// withSpecs has a source's specs read where it is read itself, beside the others, if all of them are needed.
func (l *runList) withSpecs(shard store.Shard, read recordReader) recordReader {
	if !l.filter.needsSpecs() {
		return read
	}
	return func(ctx context.Context, last *store.Record, n int) ([]store.Record, bool, error) {
		records, end, err := read(ctx, last, n)
		if err == nil {
			err = l.specs.ahead(ctx, shard, records)
		}
		return records, end, err
	}
}

func byRef(a, b *store.Record) int { return a.Compare(b.Ref) }

// ofOneJob is a section of the record of a job and, if they are asked for, of its pending runs.
func (l *runList) ofOneJob(section int, at runPlace, pending bool,
	show func(context.Context, *source[store.Record]) (carillon.Run, bool, error)) *runSection[store.Record] {
	key := l.key()
	number := l.partitions.of(key).number
	shard := l.partitions.shards[number]
	q := store.ListQuery{PendingOf: &key, MaxSpec: partition.InlineSpec}
	if at.Ref != nil {
		q.Past(*at.Ref)
	}
	rest := pagesOf(shard, q)
	read := func(ctx context.Context, last *store.Record, n int) ([]store.Record, bool, error) {
		if last != nil || at.Ref != nil {
			if !pending {
				return nil, true, nil
			}
			return rest(ctx, last, n)
		}
		records, err := shard.Read(ctx, []store.Ref{{Key: key}})
		if err != nil || records[0].Exists {
			return records, !pending, err
		}
		if !pending {
			return nil, true, nil
		}
		return rest(ctx, nil, n)
	}
	return &runSection[store.Record]{show: show,
		merge: merge[store.Record]{compare: byRef,
			sources: []*source[store.Record]{{number: number, shard: shard, read: read, size: l.readSize(1)}}},
		place: func(r *store.Record) runPlace { return runPlace{Section: section, Ref: &r.Ref} }}
}

// finished is the section of finished runs: newest finished first, those that finished at one instant by
// partition and status; of one job as its history has them.
func (l *runList) finished(at runPlace) *runSection[store.RunRecord] {
	s := &runSection[store.RunRecord]{merge: merge[store.RunRecord]{compare: newestFirst}, show: l.showFinished,
		place: func(r *store.RunRecord) runPlace {
			return runPlace{Section: finished, At: r.Finished, Partition: int(r.ID.Partition), Status: r.Status,
				Cursor: r.Cursor}
		}}
	statuses := l.finishedStatuses()
	if l.q.Job != "" {
		if len(statuses) > 0 {
			s.sources = append(s.sources, l.history(at, statuses))
		}
		return s
	}
	for number := range l.partitions.parts {
		for _, status := range statuses {
			q := store.RunQuery{Namespace: l.q.Namespace, Status: &status, Since: l.filter.from,
				Until: l.filter.until}
			if at.Cursor != nil {
				switch c := cmp.Or(cmp.Compare(number, at.Partition), cmp.Compare(status, at.Status)); {
				case c == 0:
					q.After = at.Cursor
				case c < 0:
					q.Until = at.At
				default:
					q.Until = min(q.Until, at.At+1)
				}
			}
			s.sources = append(s.sources, l.finishedIn(number, q, l.readSize(len(l.partitions.parts)*len(statuses))))
		}
	}
	return s
}

// newestFirst orders finished runs but for those of one partition and status: they are in their order.
func newestFirst(a, b *store.RunRecord) int {
	return cmp.Or(cmp.Compare(b.Finished, a.Finished), cmp.Compare(a.ID.Partition, b.ID.Partition),
		cmp.Compare(a.Status, b.Status))
}

// finishedStatuses returns the statuses of finished runs that are asked for.
func (l *runList) finishedStatuses() (all []carillon.RunStatus) {
	for s := carillon.RunSucceeded; s <= carillon.RunSkipped; s++ {
		if len(l.q.Statuses) == 0 || l.asksFor(s) {
			all = append(all, s)
		}
	}
	return all
}

// history is the finished runs of the job that is asked for.
func (l *runList) history(at runPlace, statuses []carillon.RunStatus) *source[store.RunRecord] {
	key := l.key()
	q := store.RunQuery{Job: &key, Since: l.filter.from, Until: l.filter.until, After: at.Cursor}
	if len(statuses) == 1 {
		q.Status = &statuses[0]
	}
	return l.finishedIn(l.partitions.of(key).number, q, l.readSize(1))
}

func (l *runList) finishedIn(number int, q store.RunQuery, size int) *source[store.RunRecord] {
	shard := l.partitions.shards[number]
	if q.Until == math.MaxInt64 {
		q.Until = 0
	}
	return &source[store.RunRecord]{number: number, shard: shard, size: size,
		read: func(ctx context.Context, last *store.RunRecord, n int) ([]store.RunRecord, bool, error) {
			q := q
			q.Limit = n
			if last != nil {
				q.After = last.Cursor
			}
			records, err := shard.Runs(ctx, q)
			return records, len(records) < q.Limit, err
		}}
}

// readSize is how many runs are read first of each of n sources. If some will be left out, more are needed.
func (l *runList) readSize(n int) int {
	size := l.q.PageSize
	if l.filter.leavesOut() {
		size = max(size, l.most()/2)
	}
	return readSize(size, n)
}

func (l *runList) showFinished(_ context.Context,
	s *source[store.RunRecord]) (r carillon.Run, ok bool, err error) {
	rec := &s.next[0]
	if len(l.q.Statuses) > 0 && !l.asksFor(rec.Status) || !l.filter.finished(rec) {
		return r, false, nil
	}
	return partition.RunOf(rec), true, nil
}
