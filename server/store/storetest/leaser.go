package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

var leaserCases = []Case{
	{Name: "leaser/a free partition is claimed", check: claimFree},
	{Name: "leaser/somebody else's partition is not", check: claimHeld},
	{Name: "leaser/a claim answers partition by partition", check: claimMany},
	{Name: "leaser/epochs grow whatever happens", check: epochsGrow},
	{Name: "leaser/nonces differ", check: noncesDiffer},
	{Name: "leaser/of a hundred claimants one wins", check: claimRace},
	{Name: "leaser/of two claimants of an orphan one wins, each time", check: orphanRace},
	{Name: "leaser/an expired lease is free", check: leaseExpires},
	{Name: "leaser/a renewed lease is not free", check: leaseRenewed},
	{Name: "leaser/renew says what is lost", check: renewSaysLost},
	{Name: "leaser/release frees only what is held", check: releaseHeld},
	{Name: "leaser/owners are all that ever claimed", check: ownersAll},
	{Name: "leaser/owners tell how long a lease has lasted", check: leaseLasted},
	{Name: "leaser/the clock goes on", check: clockGoesOn},
	{Name: "leaser/the proving ground is nobody's", check: provingGround,
		needs: func(o Options) bool { return !o.Alone }},
}

func (e *env) leaser() store.Leaser { return e.store.Leaser() }

// claims takes what it can of some partitions, and checks that there is an answer for each.
func (e *env) claims(node string, partitions ...int) []store.Term {
	e.Helper()
	terms, err := e.leaser().Claim(e.Context(), node, partitions, lasting)
	e.must(err)
	if len(terms) != len(partitions) {
		e.Fatalf("a claim of %d partitions gives %d terms", len(partitions), len(terms))
	}
	return terms
}

// renew renews leases and says which are lost.
func (e *env) renew(node string, held ...store.Holding) []store.Holding {
	e.Helper()
	lost, err := e.leaser().Renew(e.Context(), node, held, lasting)
	e.must(err)
	return lost
}

func (e *env) release(node string, held ...store.Holding) {
	e.Helper()
	e.must(e.leaser().Release(e.Context(), node, held))
}

func (s shard) holding() store.Holding { return store.Holding{Partition: s.partition, Term: s.term} }

func claimFree(e *env) {
	term := e.claim("node-1", 3, lasting)
	if term.Epoch == 0 {
		e.Error("an epoch of 0")
	}
	e.at(3, term).put(job("a"))
	if terms := e.claims("node-1"); len(terms) != 0 {
		e.Errorf("a claim of nothing gives %v", terms)
	}
}

func claimHeld(e *env) {
	s := e.own(3)
	for range 3 {
		if term := e.tryClaim("node-2", 3, lasting); !term.IsZero() {
			e.Fatalf("node-2 claims what node-1 holds: %+v", term)
		}
	}
	s.put(job("a")) // a failed claim fences nobody
	again := e.claim("node-1", 3, lasting)
	if again.Epoch <= s.term.Epoch {
		e.Errorf("the owner claims again: epoch %d after %d", again.Epoch, s.term.Epoch)
	}
}

func claimMany(e *env) {
	e.claims("node-2", 1, 5)
	terms := e.claims("node-1", 5, 2, 1, 0)
	for i, got := range []bool{!terms[0].IsZero(), !terms[1].IsZero(), !terms[2].IsZero(), !terms[3].IsZero()} {
		if want := i == 1 || i == 3; got != want {
			e.Errorf("claim %d of 5, 2, 1, 0, of which node-2 holds 1 and 5: %+v", i, terms[i])
		}
	}
	e.at(2, terms[1]).put(job("a"))
	e.at(0, terms[3]).put(job("a"))
	e.at(1, terms[2]).fenced(store.Batch{Puts: []store.Record{job("a")}})
	all := make([]int, e.store.Meta().Partitions)
	for i := range all {
		all[i] = i
	}
	for i, term := range e.claims("node-2", all...) {
		if held := i == 0 || i == 2; term.IsZero() != held {
			e.Errorf("node-2 claims partition %d: %+v", i, term)
		}
	}
}

func epochsGrow(e *env) {
	var last uint64
	next := func(what string, term store.Term) {
		e.Helper()
		if term.Epoch <= last {
			e.Errorf("%s: epoch %d after %d", what, term.Epoch, last)
		}
		last = term.Epoch
	}
	for i := range 3 {
		node := fmt.Sprint("node-", i)
		term := e.claim(node, 3, lasting)
		next("a first claim", term)
		next("a claim of one's own", e.claim(node, 3, lasting))
		term = e.claim(node, 3, e.shortly())
		next("a short claim", term)
		e.eventually("an expired lease is claimed", func() bool {
			term = e.tryClaim("other", 3, lasting)
			return !term.IsZero()
		})
		next("a claim of an expired lease", term)
		e.release("other", store.Holding{Partition: 3, Term: term})
	}
}

func noncesDiffer(e *env) {
	seen := map[uint64]bool{}
	for range 20 {
		for _, term := range e.claims("node-1", 0, 1, 2) {
			if seen[term.Nonce] {
				e.Fatalf("nonce %d was given twice", term.Nonce)
			}
			seen[term.Nonce] = true
		}
	}
}

func claimRace(e *env) {
	const claimants, rounds = 100, 3
	for range rounds {
		var winners atomic.Int32
		var won atomic.Value
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i := range claimants {
			wg.Go(func() {
				<-start
				node := fmt.Sprint("node-", i)
				terms, err := e.leaser().Claim(e.Context(), node, []int{3}, lasting)
				if err != nil || len(terms) != 1 {
					e.Errorf("claim: %v, %v", terms, err)
				} else if !terms[0].IsZero() {
					winners.Add(1)
					won.Store(store.Owner{Partition: 3, Term: terms[0], Node: node})
				}
			})
		}
		close(start)
		wg.Wait()
		if winners.Load() != 1 {
			e.Fatalf("%d of %d claimants won", winners.Load(), claimants)
		}
		winner := won.Load().(store.Owner)
		e.at(3, winner.Term).put(job("a"))
		e.release(winner.Node, store.Holding{Partition: 3, Term: winner.Term})
	}
}

// defaultRounds is the default of Options.Rounds.
const defaultRounds = 1000

// orphanRace has two nodes claim one partition, again and again, whose owner has released it or has let its
// lease end.
func orphanRace(e *env) {
	rounds := cmp.Or(e.opts.Rounds, defaultRounds)
	if testing.Short() {
		rounds = min(rounds, 100)
	}
	var last uint64
	grows := func(round int, term store.Term) {
		if term.Epoch <= last {
			e.Fatalf("round %d: epoch %d after %d", round, term.Epoch, last)
		}
		last = term.Epoch
	}
	for round := range rounds {
		gone := e.claim("gone", 3, 0) // and ended
		grows(round, gone)
		if round%2 == 0 {
			e.release("gone", store.Holding{Partition: 3, Term: gone})
		}
		terms := e.together(2, 3)
		winner := 0
		if terms[0].IsZero() {
			winner = 1
		}
		if terms[winner].IsZero() || !terms[1-winner].IsZero() {
			e.Fatalf("round %d: two claimants got %+v", round, terms)
		}
		grows(round, terms[winner])
		e.release(fmt.Sprint("node-", winner), store.Holding{Partition: 3, Term: terms[winner]})
	}
}

// together has nodes 0 … n-1 claim a partition at the same time.
func (e *env) together(n, partition int) []store.Term {
	e.Helper()
	terms, errs := make([]store.Term, n), make([]error, n)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			got, err := e.leaser().Claim(e.Context(), fmt.Sprint("node-", i), []int{partition}, lasting)
			if errs[i] = err; err == nil {
				terms[i] = got[0]
			}
		})
	}
	close(start)
	wg.Wait()
	e.must(errors.Join(errs...))
	return terms
}

func leaseExpires(e *env) {
	old := e.at(3, e.claim("node-1", 3, e.shortly()))
	var term store.Term
	e.eventually("an expired lease is claimed", func() bool {
		term = e.tryClaim("node-2", 3, lasting)
		return !term.IsZero()
	})
	old.fenced(store.Batch{Puts: []store.Record{job("a")}})
	e.at(3, term).put(job("a"))
	if again := e.tryClaim("node-1", 3, lasting); !again.IsZero() {
		e.Errorf("the old owner claims what it lost: %+v", again)
	}
}

// leaseRenewed renews a short lease, and takes an equally short one after it: when the later one has ended,
// the earlier one would have ended too.
func leaseRenewed(e *env) {
	var s shard
	ttl := e.shortly()
	for renewed := false; !renewed; ttl *= 2 { // on a slow machine the lease ends before it can be renewed
		s = e.at(3, e.claim("node-1", 3, ttl))
		renewed = len(e.renew("node-1", s.holding())) == 0
		e.claim("node-1", 4, ttl)
	}
	e.eventually("a short lease has ended", func() bool { return !e.tryClaim("node-2", 4, lasting).IsZero() })
	if term := e.tryClaim("node-2", 3, lasting); !term.IsZero() {
		e.Errorf("node-2 claims a renewed partition: %+v", term)
	}
	s.put(job("a"))
}

func renewSaysLost(e *env) {
	kept, lost, released, expired := e.own(1), e.own(2), e.own(3), e.at(4, e.claim("node-1", 4, e.shortly()))
	e.own(2) // claimed again: the first term is lost
	e.release("node-1", released.holding())
	e.eventually("an expired lease is claimed",
		func() bool { return !e.tryClaim("node-2", 4, lasting).IsZero() })
	never := store.Holding{Partition: 5, Term: store.Term{Epoch: 1, Nonce: 1}}
	wrong := store.Holding{Partition: 1, Term: store.Term{Epoch: kept.term.Epoch, Nonce: kept.term.Nonce + 1}}

	got := map[store.Holding]bool{}
	for _, h := range e.renew("node-1", kept.holding(), lost.holding(), released.holding(),
		expired.holding(), never, wrong) {
		got[h] = true
	}
	for what, h := range map[string]store.Holding{"claimed again": lost.holding(),
		"released": released.holding(), "expired and claimed": expired.holding(), "never claimed": never,
		"of another nonce": wrong} {
		if !got[h] {
			e.Errorf("renew does not say that what is %s is lost", what)
		}
	}
	if got[kept.holding()] || len(got) != 5 {
		e.Errorf("lost %v", got)
	}
	if lost := e.renew("node-2", kept.holding()); len(lost) != 1 {
		e.Error("a node renews what another holds")
	}
	if lost := e.renew("node-1"); len(lost) != 0 {
		e.Errorf("a renewal of nothing loses %v", lost)
	}
	kept.put(job("a"))
	released.fenced(store.Batch{Puts: []store.Record{job("a")}})
}

func releaseHeld(e *env) {
	old := e.own(3)
	now := e.own(3)
	e.release("node-1", old.holding(), store.Holding{Partition: 4, Term: store.Term{Epoch: 1, Nonce: 1}})
	e.release("node-2", now.holding())
	now.put(job("a"))
	if term := e.tryClaim("node-2", 3, lasting); !term.IsZero() {
		e.Fatalf("a release under an old term freed the partition")
	}
	e.release("node-1", now.holding())
	e.release("node-1", now.holding())
	term := e.claim("node-2", 3, lasting)
	if term.Epoch <= now.term.Epoch {
		e.Errorf("epoch %d after %d", term.Epoch, now.term.Epoch)
	}
	e.release("node-1", now.holding())
	e.at(3, term).put(job("b"))
}

func ownersAll(e *env) {
	if owners, err := e.leaser().Owners(e.Context()); err != nil || len(owners) != 0 {
		e.Fatalf("Owners of a new store = %v, %v", owners, err)
	}
	now, err := e.leaser().Now(e.Context())
	e.must(err)
	five, two, three := e.own(5), e.at(2, e.claim("node-2", 2, lasting)), e.own(3)
	e.release("node-1", three.holding())
	again := e.own(5)
	owners, err := e.leaser().Owners(e.Context())
	e.must(err)
	var got, want []string
	for _, o := range owners {
		if o.Node == "" {
			o.Term = store.Term{} // what is released has no term in force
		} else if o.Until.Before(now.Add(lasting)) {
			e.Errorf("partition %d is held until %v, claimed at %v or later for %v", o.Partition,
				o.Until, now, lasting)
		}
		got = append(got, fmt.Sprint(o.Partition, o.Node, o.Term))
	}
	for _, o := range []store.Owner{
		{Partition: 2, Node: "node-2", Term: two.term}, {Partition: 3},
		{Partition: 5, Node: "node-1", Term: again.term},
	} {
		want = append(want, fmt.Sprint(o.Partition, o.Node, o.Term))
	}
	e.wantTexts("Owners", got, want)
	if five.term == again.term {
		e.Error("two claims, one term")
	}
}

// lastsFrom checks that the store tells of a term that is not in force any more that it was until ttl after
// an instant at least.
func (e *env) lastsFrom(s shard, from time.Time, ttl time.Duration) {
	e.Helper()
	owners, err := e.leaser().Owners(e.Context())
	e.must(err)
	for _, o := range owners {
		if o.Partition == s.partition {
			if o.Term != s.term || o.Until.Before(from.Add(ttl)) {
				e.Errorf("of term %+v, renewed at %v for %v, it is known that %+v lasted until %v", s.term,
					from, ttl, o.Term, o.Until)
			}
			return
		}
	}
	e.Errorf("partition %d has no owner", s.partition)
}

func leaseLasted(e *env) {
	ttl := e.shortly()
	var s shard
	var now time.Time
	for renewed := false; !renewed; ttl *= 2 { // on a slow machine the lease ends before it can be renewed
		s = e.at(3, e.claim("node-1", 3, ttl))
		var err error
		now, err = e.leaser().Now(e.Context())
		e.must(err)
		lost, err := e.leaser().Renew(e.Context(), "node-1", []store.Holding{s.holding()}, ttl)
		e.must(err)
		if renewed = len(lost) == 0; renewed {
			break
		}
	}
	e.eventually("a lease has ended", func() bool {
		at, err := e.leaser().Now(e.Context())
		e.must(err)
		return !at.Before(now.Add(ttl))
	})
	e.lastsFrom(s, now, ttl)
}

// leaseLastedOver is leaseLasted of an owner that is gone.
func leaseLastedOver(e *env, again func()) {
	claimed, renewed := e.own(3), e.own(4)
	now, err := e.leaser().Now(e.Context())
	e.must(err)
	if lost := e.renew("node-1", renewed.holding()); len(lost) != 0 {
		e.Fatalf("lost %v", lost)
	}
	last := e.own(5)
	again()
	e.lastsFrom(claimed, time.Time{}, 0)
	e.lastsFrom(renewed, now, lasting)
	e.lastsFrom(last, now, lasting)
}

func clockGoesOn(e *env) {
	first, err := e.leaser().Now(e.Context())
	e.must(err)
	e.eventually("the store's clock goes on", func() bool {
		second, err := e.leaser().Now(e.Context())
		e.must(err)
		return second.After(first)
	})
}

// provingGround is owned, written and given up like any partition, and shows nowhere.
func provingGround(e *env) {
	ground := e.store.Meta().ProvingGround()
	for range 2 {
		first := e.own(ground)
		if terms, err := e.leaser().Claim(e.Context(), "node-2", []int{ground}, lasting); err != nil ||
			!terms[0].IsZero() {
			e.Errorf("another claims it: %v, %v", terms, err)
		}
		first.put(job("a"))
		first.apply(store.Batch{MetaRecords: []store.MetaRecord{metaRecordOf('p', "k")}})
		first.wantRecord(job("a"))
		first.delete(jobRef("a"))
		if owners, err := e.leaser().Owners(e.Context()); err != nil || len(owners) > 0 {
			e.Errorf("owners: %v, %v", owners, err)
		}
		e.release("node-1", first.holding())
		second := e.at(ground, e.claim("node-2", ground, lasting))
		first.fenced(store.Batch{MetaRecords: []store.MetaRecord{metaRecordOf('p', "k")}})
		e.release("node-2", second.holding())
	}
}
