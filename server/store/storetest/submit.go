package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/carillonhq/carillon/server/store"
)

// submitCases are about stores that are Submitters; others pass them. What holds for ApplyGroup holds for
// Submit.
var submitCases = []Case{
	{Name: "submit/all batches are applied", check: submitted(groupIsApplied)},
	{Name: "submit/one wrong term refuses all", check: submitted(groupIsFenced)},
	{Name: "submit/nothing lands after one of its partitions was claimed", check: submitted(groupRace)},
	{Name: "submit/beside other groups and single batches", check: submitted(groupsBeside)},
	{Name: "submit/behaves like the model", check: submitted(groupsLikeTheModel)},
	{Name: "submit/the outcome comes once", check: submitted(outcomeComesOnce)},
	{Name: "submit/survives a reopen", check: submitted(reopened(groupSurvives)), needs: canReopen},
	{Name: "submit/survives a crash", check: submitted(crashed(groupSurvives)), needs: canCrash},
	{Name: "submit/a close waits for outcomes", check: submitted(reopened(closeWaits)), needs: canReopen},
	{Name: "submit/after a close nothing is taken", check: submitted(reopened(nothingAfterClose)),
		needs: canReopen},
}

// submitted makes a case apply its groups by Submit. It leaves out what the store does not offer.
func submitted(check func(e *env)) func(e *env) {
	return func(e *env) {
		if _, ok := e.store.(store.Submitter); ok {
			e.submits = true
			check(e)
		}
	}
}

// submit submits a group and waits for its outcome.
func (e *env) submit(writes []store.Write) error {
	outcome := make(chan error, 2) // room for one too many
	e.store.(store.Submitter).Submit(writes, func(err error) { outcome <- err })
	return <-outcome
}

// outcomeComesOnce: several partitions, each with one group after the other, some of which are refused.
func outcomeComesOnce(e *env) {
	const partitions, steps = 4, 25
	var wg sync.WaitGroup
	var counts [partitions][steps]atomic.Int32
	for p := range partitions {
		s := e.own(p)
		stale := e.at(p, store.Term{Epoch: 1, Nonce: 1})
		wg.Go(func() {
			for i := range steps {
				from := s
				if i%5 == 4 {
					from = stale
				}
				outcome := make(chan error, 2)
				write := from.write(store.Batch{Puts: []store.Record{job("a", due(base+int64(i)))}})
				e.store.(store.Submitter).Submit([]store.Write{write}, func(err error) {
					counts[p][i].Add(1)
					outcome <- err
				})
				if err := <-outcome; (err == nil) != (i%5 != 4) {
					e.Errorf("partition %d, group %d: %v", p, i, err)
				}
				if want := base + int64(i-i%5/4); s.read(jobRef("a")).State.Due != want {
					e.Errorf("partition %d: the outcome of group %d came before it could be read, or another group landed",
						p, i)
				}
			}
		})
	}
	wg.Wait()
	for p := range partitions {
		for i := range steps {
			if n := counts[p][i].Load(); n != 1 {
				e.Errorf("partition %d, group %d: %d outcomes", p, i, n)
			}
		}
	}
}

// closeWaits: a store is closed right after groups were submitted. Each has its outcome then, and what was
// acknowledged is there.
func closeWaits(e *env, again func()) {
	var mu sync.Mutex
	outcomes := map[int][]error{}
	shards := e.fourPartitions()
	for i, s := range shards {
		e.store.(store.Submitter).Submit([]store.Write{s.write(store.Batch{Puts: []store.Record{job("a")}})},
			func(err error) {
				mu.Lock()
				defer mu.Unlock()
				outcomes[i] = append(outcomes[i], err)
			})
	}
	again()
	mu.Lock()
	defer mu.Unlock()
	for i, s := range shards {
		if got := outcomes[i]; len(got) != 1 || got[0] != nil {
			e.Errorf("outcomes of group %d when the store is closed: %v", i, got)
			continue
		}
		e.at(s.partition, store.Term{}).wantNames(fmt.Sprint("List of partition ", s.partition),
			e.at(s.partition, store.Term{}).list(store.ListQuery{Limit: plenty}), "a")
	}
}

// nothingAfterClose: what is submitted to a closed store has an outcome, and no effect.
func nothingAfterClose(e *env, again func()) {
	s, closed := e.own(3), e.store.(store.Submitter)
	late := s.write(store.Batch{Puts: []store.Record{job("late")}})
	again()
	outcome := make(chan error, 2)
	closed.Submit([]store.Write{late}, func(err error) { outcome <- err })
	if err := <-outcome; !errors.Is(err, store.ErrClosed) {
		e.Errorf("the outcome after a close: %v, want ErrClosed", err)
	}
	e.at(3, store.Term{}).wantNowhere(jobRef("late"))
}
