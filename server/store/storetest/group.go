package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/carillonhq/carillon/server/store"
)

// groupCases are about stores that are Groupers; others pass them.
var groupCases = []Case{
	{Name: "group/all batches are applied", check: grouped(groupIsApplied)},
	{Name: "group/one wrong term refuses all", check: grouped(groupIsFenced)},
	{Name: "group/of no batch, of one, of empty ones", check: grouped(groupsOfLittle)},
	{Name: "group/a cancelled context leaves no doubt", check: grouped(groupCancelled)},
	{Name: "group/nothing lands after one of its partitions was claimed", check: grouped(groupRace)},
	{Name: "group/beside other groups and single batches", check: grouped(groupsBeside)},
	{Name: "group/behaves like the model", check: grouped(groupsLikeTheModel)},
	{Name: "group/survives a reopen", check: grouped(reopened(groupSurvives)), needs: canReopen},
	{Name: "group/survives a crash", check: grouped(crashed(groupSurvives)), needs: canCrash},
}

// grouped leaves out what the store does not offer.
func grouped(check func(e *env)) func(e *env) {
	return func(e *env) {
		if _, ok := e.store.(store.Grouper); ok {
			check(e)
		}
	}
}

// write is a shard's part of a group.
func (s shard) write(b store.Batch) store.Write { return store.Write{Shard: s.Shard, Batch: &b} }

// tryGroup applies a group.
func (e *env) tryGroup(ctx context.Context, writes ...store.Write) error {
	if e.submits {
		return e.submit(writes)
	}
	return e.store.(store.Grouper).ApplyGroup(ctx, writes)
}

// group applies a group, which must succeed.
func (e *env) group(writes ...store.Write) {
	e.Helper()
	if err := e.tryGroup(e.Context(), writes...); err != nil {
		e.Fatalf("a group: %v", err)
	}
}

// fourPartitions are owned, and not neighbours in any order.
func (e *env) fourPartitions() []shard {
	e.Helper()
	return []shard{e.own(5), e.own(0), e.own(e.store.Meta().Partitions - 1), e.own(3)}
}

// everythings is a group that does to each shard what everything says: first what comes before, then the
// batch.
func everythings(shards []shard) (before, batches []store.Write) {
	for _, s := range shards {
		first, then := s.everything()
		before, batches = append(before, s.write(first)), append(batches, s.write(then))
	}
	return before, batches
}

func groupIsApplied(e *env) {
	shards := e.fourPartitions()
	before, batches := everythings(shards)
	e.group(before...)
	e.group(batches...)
	for _, s := range shards {
		s.wantEverything()
	}
	e.at(1, store.Term{}).wantNowhere(jobRef("new"))
}

func groupIsFenced(e *env) {
	shards := e.fourPartitions()
	before, batches := everythings(shards)
	e.group(before...)
	for i, s := range shards {
		was := dumps(shards)
		old := s
		shards[i] = e.own(s.partition) // deposes s
		for _, wrong := range []shard{old, e.at(s.partition, store.Term{}),
			e.at(s.partition, store.Term{Epoch: 1, Nonce: 1})} {
			refused := append([]store.Write(nil), batches...)
			refused[i] = store.Write{Shard: wrong.Shard, Batch: batches[i].Batch}
			if err := e.tryGroup(e.Context(), refused...); store.OutcomeOf(err) != store.Fenced {
				e.Errorf("a group with a wrong term at %d: %v, want ErrFenced", i, err)
			}
		}
		e.wantTexts("after refused groups", dumps(shards), was)
		batches[i].Shard = shards[i].Shard
	}
	e.group(batches...)
	for _, s := range shards {
		s.wantEverything()
	}
}

// dumps is all that the shards hold.
func dumps(shards []shard) (out []string) {
	for _, s := range shards {
		out = append(out, s.dump()...)
	}
	return out
}

func groupsOfLittle(e *env) {
	e.group()
	s, other := e.own(3), e.own(4)
	s.put(job("a"))
	e.group(s.write(store.Batch{}), other.write(store.Batch{}))
	e.group(s.write(store.Batch{Puts: []store.Record{job("b")}}))
	e.group(s.write(store.Batch{}), other.write(store.Batch{Puts: []store.Record{job("c")}}))
	s.wantNames("List", s.list(store.ListQuery{Limit: plenty}), "a", "b")
	s.wantNames("List", other.list(store.ListQuery{Limit: plenty}), "c")
}

func groupCancelled(e *env) {
	a, b := e.own(3), e.own(4)
	ctx, cancel := context.WithCancel(e.Context())
	cancel()
	want := store.Batch{Puts: []store.Record{job("a", due(base))}}
	switch err := e.tryGroup(ctx, a.write(want), b.write(want)); store.OutcomeOf(err) {
	case store.Applied:
		a.wantRecord(want.Puts[0])
		b.wantRecord(want.Puts[0])
	case store.NotApplied:
		a.wantNowhere(jobRef("a"))
		b.wantNowhere(jobRef("a"))
	default:
		e.Errorf("ApplyGroup with a cancelled context: %v", err)
	}
}

// groupRace: while a group of two partitions is written as fast as it can, one of them is taken away. From
// then on nothing of the group lands in either: both hold the last write that was acknowledged.
func groupRace(e *env) {
	stays, moves := e.own(4), e.own(3)
	for n := range int64(20) {
		moves = e.takenWhileWritten(n, stays, moves)
	}
}

// takenWhileWritten is round n of groupRace. It returns the partition that was taken, under its new term.
func (e *env) takenWhileWritten(n int64, stays, moves shard) shard {
	var written int64
	var wg sync.WaitGroup
	var end atomic.Bool
	finish := func() { end.Store(true); wg.Wait() }
	defer finish()
	first, second := stays, moves
	if n%2 == 0 {
		first, second = second, first
	}
	begun := make(chan struct{})
	wg.Go(func() { written = e.groupUntilFenced(n, first, second, begun, &end) })
	<-begun
	moves = e.own(3)
	e.wantStill(stays)
	e.wantStill(moves)
	finish()
	for _, s := range []shard{stays, moves} {
		s.wantRecord(job("a", due(n<<32+written)))
	}
	return moves
}

// groupUntilFenced writes two shards until it is refused, and returns how many writes were acknowledged. At
// the end it tries once more, and must be refused then.
func (e *env) groupUntilFenced(n int64, a, b shard, begun chan<- struct{}, end *atomic.Bool) int64 {
	for i := int64(1); ; i++ {
		last := end.Load()
		batch := store.Batch{Puts: []store.Record{job("a", due(n<<32+i))}}
		err := e.tryGroup(e.Context(), a.write(batch), b.write(batch))
		if i == 1 {
			close(begun)
		}
		switch outcome := store.OutcomeOf(err); {
		case outcome == store.Fenced:
			return i - 1
		case outcome != store.Applied || last:
			e.Errorf("group %d is not refused: %v", n, err)
			return i
		}
	}
}

// groupsBeside writes two groups of partitions, and some by themselves, at the same time.
func groupsBeside(e *env) {
	const steps = 20
	batch := func(i int) store.Batch {
		return store.Batch{Puts: []store.Record{job("a", due(base+int64(i))), job(fmt.Sprint("job-", i))}}
	}
	var wg sync.WaitGroup
	var all []shard
	for _, size := range []int{3, 1, 2, 1} {
		var mine []shard
		for range size {
			mine = append(mine, e.own(len(all)))
			all = append(all, mine[len(mine)-1])
		}
		wg.Go(func() {
			for i := range steps {
				if err := e.writeAll(mine, batch(i)); err != nil {
					e.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, s := range all {
		s.wantRecord(job("a", due(base+steps-1)))
		if got := s.list(store.ListQuery{Limit: plenty}); len(got) != steps+1 {
			e.Errorf("partition %d has %d jobs of %d", s.partition, len(got), steps+1)
		}
	}
}

// writeAll applies the same batch to each shard: as a group, or by itself if there is one.
func (e *env) writeAll(shards []shard, b store.Batch) error {
	if len(shards) == 1 {
		return shards[0].Apply(e.Context(), &b)
	}
	var writes []store.Write
	for _, s := range shards {
		writes = append(writes, s.write(b))
	}
	return e.tryGroup(e.Context(), writes...)
}

// groupsLikeTheModel plays random histories of a few partitions at once.
func groupsLikeTheModel(e *env) {
	const partitions, steps = 3, 60
	for seed := range uint64(5) {
		var players []*player
		for i := range partitions {
			p := &player{env: e, seed: seed, Rand: rand.New(rand.NewPCG(seed, uint64(2+i))), model: newModel(i)}
			p.takeOver()
			players = append(players, p)
		}
		for step := range steps {
			e.playGroup(players, step)
			if e.Failed() {
				return
			}
		}
		for _, p := range players {
			p.clean()
		}
	}
}

// playGroup applies a batch of each player as one group. Now and then one of them has lost its partition
// before.
func (e *env) playGroup(players []*player, step int) {
	var writes []store.Write
	fenced := false
	for _, p := range players {
		p.step = step
		w := p.s.write(p.batch())
		writes = append(writes, w)
		if p.IntN(10) == 0 {
			p.takeOver()
			fenced = true
		}
	}
	switch err := e.tryGroup(e.Context(), writes...); {
	case !fenced && err == nil:
		for i, p := range players {
			p.model.apply(*writes[i].Batch)
		}
	case !fenced || store.OutcomeOf(err) != store.Fenced:
		e.Errorf("step %d: a group, fenced = %v: %v", step, fenced, err)
	}
	for _, p := range players {
		p.compare()
	}
}

func groupSurvives(e *env, again func()) {
	shards := e.fourPartitions()
	before, batches := everythings(shards)
	e.group(before...)
	e.group(batches...)
	again()
	for _, s := range shards {
		e.at(s.partition, store.Term{}).wantEverything()
	}
}
