package storetest

import (
	"sync"
	"sync/atomic"

	"github.com/carillonhq/carillon/server/store"
)

var fenceCases = []Case{
	{Name: "fence/the zero term may only read", check: fenceZeroTerm},
	{Name: "fence/a term that was never given is refused", check: fenceNeverGiven},
	{Name: "fence/an old term is refused after a new claim", check: fenceOldTerm},
	{Name: "fence/a released term is refused", check: fenceReleased},
	{Name: "fence/a refused batch changes nothing", check: fenceChangesNothing},
	{Name: "fence/one partition does not fence another", check: fenceOnePartition},
	{Name: "fence/two shards of one term may both write", check: fenceTwoShards},
	{Name: "fence/nothing of an old term lands after a claim", check: fenceRace},
}

func fenceZeroTerm(e *env) {
	s := e.own(3)
	s.put(job("a", due(base)))
	reader := e.at(3, store.Term{})
	reader.wantRecord(job("a", due(base)))
	reader.wantRecords("Due", reader.due(allDue(2)), job("a", due(base)))
	reader.fenced(store.Batch{Puts: []store.Record{job("b")}})
	e.at(4, store.Term{}).fenced(store.Batch{Puts: []store.Record{job("b")}})
	reader.wantGone(jobRef("b"))
}

func fenceNeverGiven(e *env) {
	b := store.Batch{Puts: []store.Record{job("b")}}
	e.at(3, store.Term{Epoch: 1, Nonce: 1}).fenced(b)
	term := e.claim("node-1", 3, lasting)
	for _, wrong := range []store.Term{
		{Epoch: term.Epoch, Nonce: term.Nonce + 1}, {Epoch: term.Epoch + 1,
			Nonce: term.Nonce}, {Epoch: term.Epoch}, {Nonce: term.Nonce},
		{Epoch: term.Epoch - 1, Nonce: term.Nonce}, {Epoch: 1 << 62, Nonce: 1},
	} {
		e.at(3, wrong).fenced(b)
	}
	e.at(3, term).wantGone(jobRef("b"))
	e.at(3, term).put(job("b"))
}

func fenceOldTerm(e *env) {
	first := e.own(3)
	first.put(job("a"))
	second := e.own(3) // the same node claims again
	first.fenced(store.Batch{Puts: []store.Record{job("a", due(base))}})
	second.put(job("a", due(base+1)))
	first.wantRecord(job("a", due(base+1))) // it may still read
	first.fenced(store.Batch{Deletes: []store.Ref{jobRef("a")}})
	e.must(e.store.Leaser().Release(e.Context(), "node-1", []store.Holding{{Partition: 3, Term: second.term}}))
	third := e.at(3, e.claim("node-2", 3, lasting))
	for _, old := range []shard{first, second} {
		old.fenced(store.Batch{Puts: []store.Record{job("a", due(base+2))}})
	}
	third.wantRecord(job("a", due(base+1)))
	third.put(job("a", due(base+3)))
	third.wantRecord(job("a", due(base+3)))
}

func fenceReleased(e *env) {
	s := e.own(3)
	s.put(job("a"))
	e.must(e.store.Leaser().Release(e.Context(), "node-1", []store.Holding{{Partition: 3, Term: s.term}}))
	s.fenced(store.Batch{Puts: []store.Record{job("b")}})
	s.fenced(store.Batch{Deletes: []store.Ref{jobRef("a")}})
	s.wantRecord(job("a"))
	s.wantGone(jobRef("b"))
}

func fenceChangesNothing(e *env) {
	old := e.own(3)
	before, batch := old.everything()
	old.apply(before)
	was := old.dump()
	now := e.own(3)
	for range 3 {
		old.fenced(batch)
	}
	now.wantTexts("after refused batches", now.dump(), was)
	now.apply(batch)
	if same := len(now.dump()) == len(was); same {
		now.wantRecord(everywhere(jobRef("new")))
	}
}

func fenceOnePartition(e *env) {
	a, b := e.own(3), e.own(4)
	again := e.own(3)
	a.fenced(store.Batch{Puts: []store.Record{job("a")}})
	b.put(job("b"))
	again.put(job("a"))
	b.wantRecord(job("b"))
	if a.term == b.term {
		e.at(4, a.term).put(job("c")) // terms of two partitions may be equal; then this is b's own
	} else {
		e.at(4, a.term).fenced(store.Batch{Puts: []store.Record{job("c")}})
	}
}

func fenceTwoShards(e *env) {
	one := e.own(3)
	two := e.at(3, one.term)
	one.put(job("a"))
	two.put(job("a", due(base), stateOnly), job("b"))
	one.put(job("b", due(base), stateOnly))
	for _, s := range []shard{one, two} {
		s.wantRecord(job("a", due(base)))
		s.wantRecord(job("b", due(base)))
	}
	e.own(3)
	one.fenced(store.Batch{Puts: []store.Record{job("a")}})
	two.fenced(store.Batch{Puts: []store.Record{job("a")}})
}

// fenceRace: while an owner writes as fast as it can, others take the partition from it, one after another.
// What a new owner sees after its claim is all that an older one will ever have written, and in the end all
// of them are refused.
func fenceRace(e *env) {
	const owners = 20
	var wg sync.WaitGroup
	var end atomic.Bool
	defer wg.Wait()
	defer end.Store(true)
	for n := range int64(owners) {
		s := e.own(3)
		e.wantStill(s)
		begun := make(chan struct{})
		wg.Go(func() { s.writeUntilFenced(n, begun, &end) })
		<-begun
	}
	e.wantStill(e.own(3))
}

// writeUntilFenced is owner n: it writes until it is refused. At the end it tries once more, and must be
// refused then.
func (s shard) writeUntilFenced(n int64, begun chan<- struct{}, end *atomic.Bool) {
	for i := int64(1); ; i++ {
		last := end.Load()
		err := s.Apply(s.Context(), &store.Batch{Puts: []store.Record{job("a", due(n<<32+i))}})
		if i == 1 {
			close(begun)
		}
		switch outcome := store.OutcomeOf(err); {
		case outcome == store.Fenced:
			return
		case outcome != store.Applied || last:
			s.Errorf("owner %d is not refused: %v", n, err)
			return
		}
	}
}

// wantStill checks that nobody else writes a partition that was just claimed.
func (e *env) wantStill(s shard) {
	e.Helper()
	seen := s.read(jobRef("a")).State.Due
	for range 20 {
		if got := s.read(jobRef("a")).State.Due; got != seen {
			e.Fatalf("the owner of epoch %d sees write %d of owner %d after its claim, then %d of %d: an older owner wrote", s.term.Epoch,
				seen&(1<<32-1), seen>>32, got&(1<<32-1), got>>32)
		}
	}
}
