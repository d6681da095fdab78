package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// env is what a case works with: a store, and calls that fail the test on an error.
type env struct {
	testing.TB
	opts    Options
	store   store.Store
	submits bool // groups are applied by Submit
}

// lasting is a lease that does not end during a test.
const lasting = time.Hour

func newEnv(t testing.TB, o Options) *env {
	t.Helper()
	return &env{TB: t, opts: o, store: o.Open(t)}
}

// must ends the test on an error.
func (e *env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// claim takes one partition, which must succeed.
func (e *env) claim(node string, partition int, ttl time.Duration) store.Term {
	e.Helper()
	term := e.tryClaim(node, partition, ttl)
	if term.IsZero() {
		e.Fatalf("%s cannot claim partition %d", node, partition)
	}
	return term
}

// tryClaim is the term under which the node took the partition, zero if somebody else has it.
func (e *env) tryClaim(node string, partition int, ttl time.Duration) store.Term {
	e.Helper()
	terms, err := e.store.Leaser().Claim(e.Context(), node, []int{partition}, ttl)
	e.must(err)
	if len(terms) != 1 {
		e.Fatalf("a claim of one partition gives %d terms", len(terms))
	}
	return terms[0]
}

// own claims a partition and is its shard.
func (e *env) own(partition int) shard {
	e.Helper()
	return e.at(partition, e.claim("node-1", partition, lasting))
}

// at is a partition as seen under a term.
func (e *env) at(partition int, term store.Term) shard {
	e.Helper()
	s, err := e.store.Shard(partition, term)
	e.must(err)
	return shard{env: e, Shard: s, partition: partition, term: term}
}

// shard is a partition with short calls.
type shard struct {
	*env
	store.Shard
	partition int
	term      store.Term
}

// apply applies a batch, which must succeed.
func (s shard) apply(b store.Batch) {
	s.Helper()
	if err := s.Apply(s.Context(), &b); err != nil {
		s.Fatalf("Apply: %v", err)
	}
}

// put puts records.
func (s shard) put(records ...store.Record) {
	s.Helper()
	s.apply(store.Batch{Puts: records})
}

// delete deletes records.
func (s shard) delete(refs ...store.Ref) {
	s.Helper()
	s.apply(store.Batch{Deletes: refs})
}

// putRuns records finished runs.
func (s shard) putRuns(runs ...store.RunRecord) {
	s.Helper()
	s.apply(store.Batch{Runs: runs})
}

// fenced applies a batch, which must be refused as fenced.
func (s shard) fenced(b store.Batch) {
	s.Helper()
	if err := s.Apply(s.Context(), &b); !errors.Is(err, store.ErrFenced) ||
		store.OutcomeOf(err) != store.Fenced {
		s.Errorf("Apply under %+v: %v, want ErrFenced", s.term, err)
	}
}

// read reads one record.
func (s shard) read(ref store.Ref) store.Record {
	s.Helper()
	records, err := s.Read(s.Context(), []store.Ref{ref})
	s.must(err)
	if len(records) != 1 {
		s.Fatalf("Read of one ref gives %d records", len(records))
	}
	return records[0]
}

// list is List.
func (s shard) list(q store.ListQuery) []store.Record {
	s.Helper()
	out, err := s.List(s.Context(), q)
	s.must(err)
	return out
}

// due is Due.
func (s shard) due(q store.DueQuery) []store.Record {
	s.Helper()
	out, err := s.Due(s.Context(), q)
	s.must(err)
	return out
}

// staged is Staged.
func (s shard) staged(q store.StagedQuery) []store.Record {
	s.Helper()
	out, err := s.Staged(s.Context(), q)
	s.must(err)
	return out
}

// live is Live.
func (s shard) live(id store.RunID) (store.Ref, bool) {
	s.Helper()
	ref, ok, err := s.Live(s.Context(), id)
	s.must(err)
	return ref, ok
}

// runs is Runs.
func (s shard) runs(q store.RunQuery) []store.RunRecord {
	s.Helper()
	out, err := s.Runs(s.Context(), q)
	s.must(err)
	return out
}

// runsOf is the whole history of a job.
func (s shard) runsOf(k carillon.Key) []store.RunRecord {
	s.Helper()
	return s.runs(store.RunQuery{Job: &k, Limit: plenty})
}

// ended asks for the runs of a namespace that ended with a status.
func ended(namespace string, status carillon.RunStatus) store.RunQuery {
	return store.RunQuery{Namespace: namespace, Status: &status, Limit: plenty}
}

// deadOf is every dead run of a namespace.
func (s shard) deadOf(namespace string) []store.RunRecord {
	s.Helper()
	return s.runs(ended(namespace, carillon.RunDead))
}

// runByID is the run of an id, if it is in the history.
func (s shard) runByID(id store.RunID) (store.RunRecord, bool) {
	s.Helper()
	runs := s.runs(store.RunQuery{ID: &id, Limit: 1})
	if len(runs) == 0 {
		return store.RunRecord{}, false
	}
	return runs[0], true
}

// metaRecords is MetaRecords.
func (s shard) metaRecords(q store.MetaQuery) []store.MetaRecord {
	s.Helper()
	out, err := s.MetaRecords(s.Context(), q)
	s.must(err)
	return out
}

// plenty is a limit that no case reaches.
const plenty = 100_000

// eventually waits until a lease taken for e.shortly has ended: cond is asked until it holds. The store's
// clock decides.
func (e *env) eventually(what string, cond func() bool) {
	e.Helper()
	if e.opts.Advance != nil {
		e.opts.Advance(e, e.store, e.shortly())
		if !cond() {
			e.Fatalf("not after the clock went on: %s", what)
		}
		return
	}
	patience := time.NewTimer(time.Minute)
	defer patience.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !cond() {
		select {
		case <-again.C:
		case <-patience.C:
			e.Fatalf("never: %s", what)
		}
	}
}

// shortly is a lease whose end a case waits for. No case relies on it being still there.
func (e *env) shortly() time.Duration {
	if e.opts.Advance != nil {
		return time.Minute
	}
	return 50 * time.Millisecond
}

// checkPages cuts a whole list into pages by a query that goes on after the last item, and checks that
// nothing is repeated or left out whatever the page size.
func checkPages[T any](e *env, whole []T, canon func(T) string, page func(after *T, limit int) []T) {
	e.Helper()
	for _, limit := range []int{1, 2, 3, 7, len(whole), len(whole) + 1} {
		var got []T
		var after *T
		for range len(whole) + 2 {
			next := page(after, limit)
			if len(next) > limit {
				e.Fatalf("a page of at most %d has %d", limit, len(next))
			}
			if len(next) == 0 {
				break
			}
			got = append(got, next...)
			after = &got[len(got)-1]
		}
		if a, b := canons(got, canon), canons(whole, canon); !slices.Equal(a, b) {
			e.Fatalf("pages of %d give\n%s\nwant\n%s", limit, lines(a), lines(b))
		}
	}
}
