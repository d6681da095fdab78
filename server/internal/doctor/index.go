package doctor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"maps"
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// indexes compares each index with the records by queries alone, for engines that do not examine themselves.
// Such a query lists what the index has, so the two are sets. They are compared in bounded memory: each
// member is added to one of many sums, once for the record and once, negated, for the entry. Only members
// whose sum is not zero are then looked at one by one.
func (p *exam) indexes(ctx context.Context) error {
	if _, ok := p.store.(store.Examiner); ok {
		return nil
	}
	for _, x := range []index{
		{store.FaultDueMissing, store.FaultDueDangling, isDue, p.eachDue},
		{store.FaultPhaseMissing, store.FaultPhaseDangling, isListed, p.eachOfPhases},
		{store.FaultStagedMissing, store.FaultStagedDangling, isStaged, p.eachStaged},
		{store.FaultLiveMissing, "", isLive, p.eachLive},
	} {
		if err := p.index(ctx, &x); err != nil {
			return err
		}
	}
	return p.statuses(ctx)
}

// index is an index of records.
type index struct {
	missing, dangling Kind
	has               func(s *store.State) bool                                      // whether it has a record
	each              func(ctx context.Context, f func(r *store.Record) error) error // what it lists
}

func isDue(s *store.State) bool    { return s.Due != 0 }
func isListed(s *store.State) bool { return s.Phase != carillon.PhaseScheduled }
func isStaged(s *store.State) bool { return s.Phase == carillon.PhaseStaged }
func isLive(s *store.State) bool   { return s.Run.Live }

// sums are those of a comparison.
type sums struct {
	seed maphash.Seed
	of   [1 << 12]uint64
}

func (s *sums) place(ref store.Ref) (hash uint64, at *uint64) {
	hash = maphash.Comparable(s.seed, ref)
	return hash, &s.of[hash%uint64(len(s.of))]
}

// mostApart is how many members are looked at one by one: beyond it some of them are left for the next time.
const mostApart = 100_000

func (p *exam) index(ctx context.Context, x *index) error {
	s := &sums{seed: maphash.MakeSeed()}
	listed := func(f func(ref store.Ref, entry bool)) error {
		err := p.eachRecord(ctx, func(r *store.Record) error {
			if x.has(&r.State) {
				f(r.Ref, false)
			}
			return nil
		})
		return cmp.Or(err, x.each(ctx, func(r *store.Record) error {
			f(r.Ref, true)
			return nil
		}))
	}
	if err := listed(func(ref store.Ref, entry bool) {
		hash, at := s.place(ref)
		if hash |= 1; entry {
			hash = -hash
		}
		*at += hash
	}); err != nil {
		return p.unlessDamaged(x.missing, false, err)
	}
	apart := map[store.Ref]int{} // 1: only a record, -1: only an entry
	if err := listed(func(ref store.Ref, entry bool) {
		if _, at := s.place(ref); *at == 0 || len(apart) >= mostApart {
			return
		}
		if entry {
			apart[ref]--
		} else {
			apart[ref]++
		}
	}); err != nil {
		return p.unlessDamaged(x.missing, false, err)
	}
	for _, ref := range slices.SortedFunc(maps.Keys(apart), store.Ref.Compare) {
		if err := p.apart(ctx, x, ref, apart[ref]); err != nil {
			return err
		}
	}
	return nil
}

// apart tells of a record that an index lacks, or the other way round. To write the record again writes its
// entries, too.
func (p *exam) apart(ctx context.Context, x *index, ref store.Ref, by int) error {
	if by == 0 {
		return nil
	}
	read, err := p.shard.Read(ctx, []store.Ref{ref})
	if err != nil {
		return p.unlessDamaged(store.FaultRecordUnreadable, false, err)
	}
	r := read[0]
	kind, what := x.missing, "no query of the index lists it"
	if by < 0 {
		kind, what = x.dangling, "a query of the index lists it"
	}
	f := findingOf(kind, p.number, ref, what)
	if !r.Exists {
		p.report.add(f)
		return nil
	}
	r.Spec = nil // it stays
	return p.mend(ctx, p.number, f, &store.Batch{Puts: []store.Record{r}})
}

// pages calls f with the records of a query, page by page. It ends where a page does not go on behind the one
// before.
func pages(ask func() ([]store.Record, error), past func(last *store.Record) (further bool),
	f func(*store.Record) error) error {
	for {
		page, err := ask()
		if err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			if err := f(&page[i]); err != nil {
				return err
			}
		}
		if !past(&page[len(page)-1]) {
			return errDisorder
		}
	}
}

var errDisorder = errors.Join(store.ErrDamaged, errors.New("an index lists records in another order than their states say"))

func (p *exam) eachRecord(ctx context.Context, f func(*store.Record) error) error {
	q := store.ListQuery{Limit: pageItems, MaxSpec: 1, Pending: true}
	return pages(func() ([]store.Record, error) { return p.shard.List(ctx, q) },
		func(last *store.Record) bool { q.Past(last.Ref); return true }, f)
}

func (p *exam) eachDue(ctx context.Context, f func(*store.Record) error) error {
	for priority := range uint8(lowestPriority + 1) {
		q := store.DueQuery{Priority: priority, Until: 1<<63 - 1, Limit: pageItems, MaxSpec: 1}
		ask := func() ([]store.Record, error) { return p.shard.Due(ctx, q) }
		if err := pages(ask, func(last *store.Record) bool {
			was := q.After
			q.After = store.Cursor{Due: last.State.Due, Ref: last.Ref}
			return was == (store.Cursor{}) ||
				cmp.Or(cmp.Compare(was.Due, q.After.Due), was.Ref.Compare(q.After.Ref)) < 0
		}, f); err != nil {
			return err
		}
	}
	return nil
}

func (p *exam) eachOfPhases(ctx context.Context, f func(*store.Record) error) error {
	for phase := carillon.PhaseReady; phase <= carillon.PhaseWaiting; phase++ {
		q := store.ListQuery{Limit: pageItems, MaxSpec: 1, Pending: true, Phase: &phase}
		if err := pages(func() ([]store.Record, error) { return p.shard.List(ctx, q) },
			func(last *store.Record) bool { q.Past(last.Ref); return true }, f); err != nil {
			return err
		}
	}
	return nil
}

// eachStaged lists what is parked in the queues that are named as parked, as a node does.
func (p *exam) eachStaged(ctx context.Context, f func(*store.Record) error) error {
	for _, queue := range slices.Sorted(maps.Keys(p.parked)) {
		q := store.StagedQuery{Queue: queue, Limit: pageItems, MaxSpec: 1}
		ask := func() ([]store.Record, error) { return p.shard.Staged(ctx, q) }
		if err := pages(ask, func(last *store.Record) bool {
			was := q.After
			q.After = store.Cursor{Priority: last.State.Priority, Due: last.State.Run.Due, Ref: last.Ref}
			return was == (store.Cursor{}) || cmp.Or(cmp.Compare(was.Priority, q.After.Priority),
				cmp.Compare(was.Due, q.After.Due), was.Ref.Compare(q.After.Ref)) < 0
		}, f); err != nil {
			return err
		}
	}
	return nil
}

// eachLive lists the records that are found by the ids of their runs, which cannot be listed by themselves.
func (p *exam) eachLive(ctx context.Context, f func(*store.Record) error) error {
	return p.eachRecord(ctx, func(r *store.Record) error {
		if !r.State.Run.Live {
			return nil
		}
		ref, ok, err := p.shard.Live(ctx, r.State.Identity(p.number))
		if err != nil || !ok || ref != r.Ref {
			return err
		}
		return f(r)
	})
}

// statuses compares the lists of finished runs by status with the finished runs.
func (p *exam) statuses(ctx context.Context) error {
	s := &sums{seed: maphash.MakeSeed()}
	lists := map[ended]bool{}
	all := store.RunQuery{All: true}
	if err := p.eachRun(ctx, all, func(r *store.RunRecord) {
		lists[ended{r.Key.Namespace, r.Status}] = true
		hash, at := s.run(r.ID)
		*at += hash | 1
	}); err != nil {
		return p.unlessDamaged(store.FaultStatusMissing, false, err)
	}
	listed := func(f func(r *store.RunRecord)) error {
		for l := range lists {
			if err := p.eachRun(ctx, store.RunQuery{Namespace: l.namespace, Status: &l.status}, f); err != nil {
				return err
			}
		}
		return nil
	}
	if err := listed(func(r *store.RunRecord) {
		hash, at := s.run(r.ID)
		*at -= hash | 1
	}); err != nil {
		return p.unlessDamaged(store.FaultStatusDangling, false, err)
	}
	apart := map[store.RunID]int{}
	count := func(by int) func(r *store.RunRecord) {
		return func(r *store.RunRecord) {
			if _, at := s.run(r.ID); *at != 0 && len(apart) < mostApart {
				apart[r.ID] += by
			}
		}
	}
	if err := cmp.Or(p.eachRun(ctx, all, count(1)), listed(count(-1))); err != nil {
		return p.unlessDamaged(store.FaultStatusMissing, false, err)
	}
	for id, by := range apart {
		if err := p.apartRun(ctx, id, by); err != nil {
			return err
		}
	}
	return nil
}

// ended names a list of finished runs.
type ended struct {
	namespace string
	status    carillon.RunStatus
}

func (s *sums) run(id store.RunID) (hash uint64, at *uint64) {
	hash = maphash.Comparable(s.seed, id)
	return hash, &s.of[hash%uint64(len(s.of))]
}

func (p *exam) eachRun(ctx context.Context, q store.RunQuery, f func(*store.RunRecord)) error {
	for q.Limit = runsAtOnce; ; {
		page, err := p.shard.Runs(ctx, q)
		if err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			f(&page[i])
		}
		last := page[len(page)-1].Cursor
		if bytes.Equal(last, q.After) {
			return errNoFurther
		}
		q.After = last
	}
}

// apartRun tells of a finished run that its list lacks, or the other way round.
func (p *exam) apartRun(ctx context.Context, id store.RunID, by int) error {
	if by == 0 {
		return nil
	}
	found, err := p.shard.Runs(ctx, store.RunQuery{ID: &id, Limit: 1})
	if err != nil {
		return err
	}
	if by < 0 || len(found) == 0 {
		p.report.add(findingOfRun(store.FaultStatusDangling, p.number, carillon.Key{}, id,
			"the history does not have it"))
		return nil
	}
	f := findingOfRun(store.FaultStatusMissing, p.number, found[0].Key, id, "no query by its status lists it")
	found[0].Cursor = nil
	return p.mend(ctx, p.number, f, &store.Batch{Runs: found})
}
