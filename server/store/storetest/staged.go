package storetest

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

var stagedCases = []Case{
	{Name: "staged/in order of priority, run due and ref", check: stagedOrder},
	{Name: "staged/one queue", check: stagedOneQueue},
	{Name: "staged/the cursor is exclusive", check: stagedCursor},
	{Name: "staged/pages give every record once", check: stagedPages},
	{Name: "staged/a rewrite replaces the entry", check: stagedRewrite},
	{Name: "staged/pages stand writes between them", check: stagedUnderWrites},
	{Name: "staged/a staged record may be due as well", check: stagedAndDue},
	{Name: "staged/long specs are left out", check: stagedMaxSpec},
}

func allStaged(queue string) store.StagedQuery { return store.StagedQuery{Queue: queue, Limit: plenty} }

func afterStaged(r store.Record) store.Cursor {
	return store.Cursor{Priority: r.State.Priority, Due: r.State.Run.Due, Ref: r.Ref}
}

// stagedMix is staged records of all priorities, in the order of the index.
func stagedMix() []store.Record {
	var out []store.Record
	for rank := range uint8(4) {
		for _, at := range []int64{-7, base, base + 256, math.MaxInt64} {
			for i, name := range oddNames {
				name = fmt.Sprintf("%s/%d/%d", name, rank, at-base)
				out = append(out, job(name, priority(rank), parked("q", at)))
				if i%5 == 0 {
					out = append(out, pending(name, 1, priority(rank), parked("q", at)))
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b store.Record) int {
		return cmp.Or(cmp.Compare(a.State.Priority, b.State.Priority),
			cmp.Compare(a.State.Run.Due, b.State.Run.Due), a.Compare(b.Ref))
	})
	return out
}

func stagedOrder(e *env) {
	s := e.own(3)
	mix := stagedMix()
	s.putShuffled(mix)
	s.wantRecords("Staged", s.staged(allStaged("q")), mix...)
}

func stagedOneQueue(e *env) {
	s := e.own(3)
	queues := append([]string{"https://example.com:8443", ""}, oddNames...)
	for i, queue := range queues {
		s.put(job(fmt.Sprint("job-", i), parked(queue, base)))
	}
	for i, queue := range queues {
		s.wantNames(fmt.Sprintf("queue %q", queue), s.staged(allStaged(queue)), fmt.Sprint("job-", i))
	}
	s.wantNames("a queue of nobody", s.staged(allStaged("nobody")))
}

func stagedCursor(e *env) {
	s := e.own(3)
	s.put(job("a", priority(1), parked("q", base)), job("b", priority(1), parked("q", base)),
		job("c", priority(1), parked("q", base+1)),
		job("d", priority(2), parked("q", base-1)))
	after := func(rank uint8, at int64, name string) []store.Record {
		q := allStaged("q")
		q.After = store.Cursor{Priority: rank, Due: at, Ref: jobRef(name)}
		return s.staged(q)
	}
	s.wantNames("after a", after(1, base, "a"), "b", "c", "d")
	s.wantNames("after b", after(1, base, "b"), "c", "d")
	s.wantNames("after c", after(1, base+1, "c"), "d")
	s.wantNames("after d", after(2, base-1, "d"))
	s.wantNames("after what is not there", after(0, base, "z"), "a", "b", "c", "d")
}

func stagedPages(e *env) {
	s := e.own(3)
	mix := stagedMix()
	s.putShuffled(append(mix, job("other", parked("r", base)), job("another", parked("p", base))))
	for i := range mix {
		mix[i].Exists = true
	}
	checkPages(e, mix, canonRecord, func(after *store.Record, limit int) []store.Record {
		q := store.StagedQuery{Queue: "q", Limit: limit}
		if after != nil {
			q.After = afterStaged(*after)
		}
		return s.staged(q)
	})
}

func stagedRewrite(e *env) {
	s := e.own(3)
	s.put(job("a", parked("q", base)), job("b", parked("q", base+1)))
	s.put(job("a", stateOnly, parked("q", base+2)))
	s.wantNames("after a later run", s.staged(allStaged("q")), "b", "a")
	s.put(job("a", stateOnly, parked("r", base)))
	s.wantNames("the queue left", s.staged(allStaged("q")), "b")
	s.wantNames("the queue entered", s.staged(allStaged("r")), "a")
	s.put(job("b", stateOnly, parked("q", base+1), priority(0)), job("c", parked("q", base), priority(1)))
	s.wantNames("after a change of priority", s.staged(allStaged("q")), "b", "c")
	for _, p := range []carillon.Phase{carillon.PhaseReady, carillon.PhaseRunning, carillon.PhaseScheduled} {
		s.put(job("a", stateOnly, parked("r", base)), job("b", stateOnly, parked("q", base)))
		s.put(job("a", stateOnly, parked("r", base), phase(p)))
		s.wantNames(fmt.Sprint("after phase ", p), s.staged(allStaged("r")))
	}
}

func stagedUnderWrites(e *env) {
	s := e.own(3)
	s.put(job("a", parked("q", base)), job("b", parked("q", base+1)), job("c", parked("q", base+2)),
		job("d", parked("q", base+3)))
	q := store.StagedQuery{Queue: "q", Limit: 2}
	page := s.staged(q)
	s.wantNames("first page", page, "a", "b")
	s.apply(store.Batch{
		Deletes: []store.Ref{jobRef("b")},
		Puts: []store.Record{job("a", phase(carillon.PhaseRunning)), job("c", phase(carillon.PhaseRunning)),
			job("before", parked("q", base)), job("e", parked("q", base+2))},
	})
	q.After = afterStaged(page[1])
	s.wantNames("second page", s.staged(q), "e", "d")
}

func stagedAndDue(e *env) {
	s := e.own(3)
	both := job("a", parked("q", base), due(base+9))
	s.put(both)
	s.wantRecords("Staged", s.staged(allStaged("q")), both)
	s.wantRecords("Due", s.due(allDue(2)), both)
	s.put(job("a", stateOnly, parked("q", base)))
	s.wantRecords("Staged without due", s.staged(allStaged("q")), job("a", parked("q", base)))
	s.wantRecords("Due without due", s.due(allDue(2)))
	s.put(both)
	s.put(job("a", stateOnly, due(base+9)))
	s.wantRecords("Staged of what is not", s.staged(allStaged("q")))
	s.wantRecords("Due of what is not staged", s.due(allDue(2)), job("a", due(base+9)))
}

func stagedMaxSpec(e *env) {
	s := e.own(3)
	short, long := make([]byte, 2000), make([]byte, 2001)
	s.put(job("a", full, spec(short)), job("b", full, spec(long)))
	q := allStaged("queue")
	s.wantRecords("without a limit", s.staged(q), job("a", full, spec(short)), job("b", full, spec(long)))
	q.MaxSpec = 2000
	s.wantRecords("up to 2000 bytes", s.staged(q), job("a", full, spec(short)), job("b", full, stateOnly))
}
