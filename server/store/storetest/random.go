package storetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

var randomCases = []Case{{Name: "random/behaves like the model", check: likeTheModel}}

// Defaults of Options.
const (
	defaultSeeds = 20
	defaultSteps = 120
)

// likeTheModel plays random histories against a store and the model. A failure names its seed; the histories
// of a seed are the same every time.
func likeTheModel(e *env) {
	seeds, steps := e.opts.Seeds, e.opts.Steps
	if seeds == 0 {
		seeds = defaultSeeds
	}
	if steps == 0 {
		steps = defaultSteps
	}
	for seed := range uint64(seeds) {
		partition := int(seed) % e.store.Meta().Partitions
		p := &player{env: e, seed: seed, Rand: rand.New(rand.NewPCG(seed, 1)), model: newModel(partition)}
		p.takeOver()
		for p.step = range steps {
			p.play()
			if e.Failed() {
				return
			}
		}
		p.clean()
	}
}

// player makes up batches and queries.
type player struct {
	*env
	*rand.Rand
	seed  uint64
	step  int
	model *model
	s     shard
	old   []shard
}

// universe is what the player's records are made of: small, so that it often meets the same.
var (
	playNamespaces = []string{"t", "t-2"}
	playNames      = []string{"a", "a/b", "a/b/c", "a0", "a\x01", "é", "b"}
	playPrefixes   = []string{"", "a", "a/"}
	playQueues     = []string{"q", "q/2"}
)

func oneOf[T any](p *player, list []T) T { return list[p.IntN(len(list))] }

// play does one thing and compares.
func (p *player) play() {
	switch n := p.IntN(40); {
	case n == 0:
		p.takeOver()
	case n == 1 && len(p.old) > 0:
		oneOf(p, p.old).fenced(p.batch())
	case n == 2 && p.opts.Reopen != nil:
		p.store = p.opts.Reopen(p, p.store)
		p.takeOver()
	case n == 3 && p.opts.Crash != nil:
		p.store = p.opts.Crash(p, p.store)
		p.takeOver()
	case n < 8:
		e := &store.Expire{Before: base + p.Int64N(2000), Most: 5 + p.IntN(20), Limit: 1 + p.IntN(4)}
		p.apply(store.Batch{Expire: e})
	default:
		p.apply(p.batch())
	}
	p.compare()
}

// takeOver claims the partition again. The store may have been opened again, so older shards are made again
// too.
func (p *player) takeOver() {
	for i := range p.old {
		p.old[i] = p.at(p.model.partition, p.old[i].term)
	}
	if p.s.Shard != nil {
		p.old = append(p.old, p.at(p.model.partition, p.s.term))
	}
	p.s = p.own(p.model.partition)
}

func (p *player) apply(b store.Batch) {
	p.s.apply(b)
	p.model.apply(b)
}

func (p *player) key() carillon.Key {
	return carillon.Key{Namespace: oneOf(p, playNamespaces), Name: oneOf(p, playNames)}
}

func (p *player) ref() store.Ref { return store.Ref{Key: p.key(), Seq: uint64(p.IntN(3)) * 200} }

// batch is a valid batch: each record, run and metadata record stands in it once, and no pending run is put
// whose job goes.
func (p *player) batch() store.Batch {
	var b store.Batch
	refs, gone := map[store.Ref]bool{}, map[carillon.Key]bool{}
	for range p.IntN(2) * p.IntN(3) {
		if ref := p.ref(); !refs[ref] {
			refs[ref] = true
			gone[ref.Key] = gone[ref.Key] || ref.Seq == 0
			b.Deletes = append(b.Deletes, ref)
		}
	}
	for range p.IntN(5) {
		if ref := p.ref(); !refs[ref] && !gone[ref.Key] {
			refs[ref] = true
			b.Puts = append(b.Puts, p.record(ref))
		}
	}
	p.history(&b)
	written := map[string]bool{}
	for range p.IntN(3) {
		x := store.MetaRecord{Kind: byte(p.IntN(3)), Key: oneOf(p, playNames)}
		if p.IntN(3) > 0 {
			x.Value = fmt.Append(nil, p.step)
		}
		if at := fmt.Sprint(x.Kind, x.Key); !written[at] {
			written[at] = true
			b.MetaRecords = append(b.MetaRecords, x)
		}
	}
	return b
}

// history adds runs, redrives and trims to a batch.
func (p *player) history(b *store.Batch) {
	ids := map[store.RunID]bool{}
	for range p.IntN(4) {
		r := p.run()
		if ids[r.ID] {
			continue
		}
		ids[r.ID] = true
		if p.IntN(3) == 0 {
			b.Redrive = append(b.Redrive, store.RunRef{Key: r.Key, ID: r.ID})
		} else {
			r.Finished += int64(len(b.Runs)) // finish and expiry times are unique, so every order is total
			r.Expires += int64(len(b.Runs))
			b.Runs = append(b.Runs, r)
		}
	}
	if p.IntN(4) == 0 {
		b.Trims = append(b.Trims, store.Trim{Key: p.key(), Keep: p.IntN(4)})
	}
}

// record is a random version of a record. The run of a record is never that of another.
func (p *player) record(ref store.Ref) store.Record {
	r := record(ref, priority(uint8(p.IntN(4))), phase(carillon.Phase(p.IntN(7))))
	_, exists := p.model.records[ref]
	if ref.Seq == 0 && (!exists || p.IntN(3) == 0) {
		r.Spec = specOf(strconv.Itoa(p.step), oneOf(p, [][]string{nil, {"env=prod"}, {"env=test", "team=x"}})...)
		if p.IntN(8) == 0 {
			r.Spec = append(r.Spec, specOf(string(make([]byte, 3000)))...)
		}
	} else {
		r.Spec = nil
		if p.IntN(2) == 0 {
			r.Kept = p.model.records[ref].Spec
		}
	}
	r.State.Generation, r.State.Queue = uint64(p.step), oneOf(p, playQueues)
	if p.IntN(4) > 0 {
		r.State.Due = base + p.Int64N(6)
	}
	r.State.Run = store.RunState{Live: p.IntN(2) == 0, Scheduled: base + p.Int64N(3),
		Due: base + p.Int64N(4), Seq: ref.Seq, Errors: attemptErrors(p.IntN(3))}
	return r
}

// run is one of a few runs of a job, with a scheduled time of its own, in a random version.
func (p *player) run() store.RunRecord {
	k, n := p.key(), p.Int64N(8)
	id := store.RunID{Partition: uint16(p.model.partition), UID: uidOf(k, byte(n%2)),
		Scheduled: base + n<<uint(n), Cause: carillon.Cause(n % 3), Seq: uint64(n * n * 10)}
	at := int64(p.step) * 10
	return store.RunRecord{Key: k, ID: id, Status: carillon.RunSucceeded + carillon.RunStatus(p.IntN(5)),
		Finished: base + at, Expires: base + p.Int64N(2)*100_000 + at, Errors: attemptErrors(p.IntN(2)),
		Grant: store.Grant{Generation: uint64(p.step)}}
}

// compare asks the store and the model the same.
func (p *player) compare() {
	p.Helper()
	refs := []store.Ref{p.ref(), p.ref(), p.ref()}
	got, err := p.s.Read(p.Context(), refs)
	p.must(err)
	var want []store.Record
	for _, ref := range refs {
		want = append(want, p.model.read(ref))
	}
	same(p, "Read", refs, got, want, canonRecord)
	p.compareRecords()
	p.compareRuns()
	if _, ok := p.store.(store.Counter); ok {
		p.wantCounts([]int{p.model.partition}, p.model.counts())
	}
	metadata := store.MetaQuery{Kind: byte(p.IntN(3)), Prefix: oneOf(p, playPrefixes),
		After: oneOf(p, append(playNames, "")), Limit: 1 + p.IntN(9)}
	same(p, "MetaRecords", metadata, p.s.metaRecords(metadata), p.model.metaRecords(metadata), canonMetaRecords)
}

func (p *player) compareRecords() {
	p.Helper()
	list := store.ListQuery{Namespace: oneOf(p, append(playNamespaces, "")),
		Prefix: oneOf(p, playPrefixes), Limit: 1 + p.IntN(20)}
	if p.IntN(2) == 0 {
		list.After = oneOf(p, playNames)
		if list.Namespace == "" {
			list.After = oneOf(p, playNamespaces) + "\x00" + list.After
		}
	}
	list.MaxSpec = p.IntN(2) * 1024
	if p.IntN(3) == 0 {
		list.Phase = new(carillon.Phase(p.IntN(7)))
	}
	if list.Pending = p.IntN(2) == 0; list.Pending {
		list.AfterSeq = uint64(p.IntN(3)) * 200
	}
	same(p, "List", list, p.s.list(list), p.model.list(list), canonRecord)
	of := store.ListQuery{PendingOf: new(p.key()), AfterSeq: uint64(p.IntN(3)) * 200, Phase: list.Phase,
		Limit: 1 + p.IntN(2), MaxSpec: list.MaxSpec}
	same(p, "List", of, p.s.list(of), p.model.list(of), canonRecord)
	firsts := store.ListQuery{FirstOfEach: true, After: oneOf(p, append(playNamespaces, "")),
		Limit: 1 + p.IntN(3), MaxSpec: list.MaxSpec}
	same(p, "List", firsts, p.s.list(firsts), p.model.list(firsts), canonRecord)

	due := store.DueQuery{Priority: uint8(p.IntN(4)), Until: base + p.Int64N(7), Limit: 1 + p.IntN(20),
		MaxSpec: p.IntN(2) * 1024}
	staged := store.StagedQuery{Queue: oneOf(p, playQueues), Limit: 1 + p.IntN(20), MaxSpec: p.IntN(2) * 1024}
	if p.IntN(2) == 0 {
		due.After = store.Cursor{Due: base + p.Int64N(6), Ref: p.ref()}
		staged.After = store.Cursor{Priority: uint8(p.IntN(4)), Due: base + p.Int64N(4), Ref: p.ref()}
	}
	same(p, "Due", due, p.s.due(due), p.model.due(due), canonRecord)
	same(p, "Staged", staged, p.s.staged(staged), p.model.staged(staged), canonRecord)

	ref := p.ref()
	id := store.RunID{Partition: uint16(p.model.partition), UID: uidOf(ref.Key, 1),
		Scheduled: base + p.Int64N(3), Seq: ref.Seq}
	gotRef, gotOK := p.s.live(id)
	wantRef, wantOK := p.model.live(id)
	if gotRef != wantRef || gotOK != wantOK {
		p.Errorf("seed %d, step %d: Live(%+v) = %v, %v, want %v, %v", p.seed, p.step, id, gotRef,
			gotOK, wantRef, wantOK)
	}
}

func (p *player) compareRuns() {
	p.Helper()
	bounded := ended(oneOf(p, playNamespaces), carillon.RunSucceeded+carillon.RunStatus(p.IntN(5)))
	bounded.Since, bounded.Until = p.bound(), p.bound()
	for _, q := range []store.RunQuery{
		bounded,
		{Job: new(p.key()), Since: p.bound(), Until: p.bound()},
		{ID: new(p.run().ID)},
		{Job: new(p.key())},
		{Job: new(p.key()), Status: new(carillon.RunStatus(p.IntN(9)))},
		ended(oneOf(p, playNamespaces), carillon.RunSucceeded+carillon.RunStatus(p.IntN(5))),
	} {
		want := p.model.history(q)
		q.Limit = 1 + p.IntN(5)
		var got []store.RunRecord
		for len(got) <= len(want) {
			page := p.s.runs(q)
			got = append(got, page...)
			if len(page) < q.Limit || q.ID != nil {
				break
			}
			q.After = page[len(page)-1].Cursor
		}
		same(p, "Runs", q, got, want, canonRun)
	}
}

// bound is a time that a run may have finished at, or 0.
func (p *player) bound() int64 {
	if p.IntN(3) == 0 {
		return 0
	}
	return base + int64(p.IntN(p.step+1))*10 + p.Int64N(2)
}

// same compares an answer of the store with the model's.
func same[T any](p *player, what string, query any, got, want []T, canon func(T) string) {
	p.Helper()
	if a, b := canons(got, canon), canons(want, canon); !slices.Equal(a, b) {
		p.Errorf("seed %d, step %d: %s(%+v): got\n%s\nwant\n%s", p.seed, p.step, what, query, lines(a), lines(b))
	}
}

// clean removes everything that the model knows and checks that the store is empty: nothing is left behind in
// any index.
func (p *player) clean() {
	var b store.Batch
	for ref := range p.model.records {
		b.Deletes = append(b.Deletes, ref)
	}
	for at := range p.model.metas {
		b.MetaRecords = append(b.MetaRecords, store.MetaRecord{Kind: at.kind, Key: at.key})
	}
	b.Expire = &store.Expire{Before: math.MaxInt64, Most: plenty, Limit: plenty}
	p.apply(b)
	p.compare()
	left := p.s.dump()
	for _, queue := range playQueues {
		left = append(left, canons(p.s.staged(allStaged(queue)), canonRecord)...)
	}
	p.wantTexts(fmt.Sprint("left behind by seed ", p.seed), left, nil)
}
