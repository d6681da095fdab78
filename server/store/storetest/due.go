package storetest

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

var dueCases = []Case{
	{Name: "due/in order of due and ref", check: dueOrder},
	{Name: "due/one priority", check: dueOnePriority},
	{Name: "due/until is inclusive", check: dueUntil},
	{Name: "due/the cursor is exclusive", check: dueCursor},
	{Name: "due/pages give every record once", check: duePages},
	{Name: "due/the zero cursor is before everything", check: dueZeroCursor},
	{Name: "due/a record without due is not indexed", check: dueNone},
	{Name: "due/a rewrite replaces the entry", check: dueRewrite},
	{Name: "due/pages stand writes between them", check: dueUnderWrites},
	{Name: "due/long specs are left out", check: dueMaxSpec},
}

// allDue is everything that is due in a priority.
func allDue(rank uint8) store.DueQuery {
	return store.DueQuery{Priority: rank, Until: math.MaxInt64, Limit: plenty}
}

// after is a record's position in the due index.
func afterDue(r store.Record) store.Cursor { return store.Cursor{Due: r.State.Due, Ref: r.Ref} }

// dueMix is records with odd names, pending runs and equal due times, in the order of the index.
func dueMix() []store.Record {
	var out []store.Record
	for _, at := range []int64{base - 1e18, base, base + 1, base + 255, base + 256,
		base + 1<<32, math.MaxInt64} {
		for i, name := range oddNames {
			name = fmt.Sprintf("%s/%d", name, at-base) // a record has one due time
			out = append(out, job(name, due(at)))
			if i%4 == 0 {
				out = append(out, pending(name, 1, due(at)), pending(name, 255, due(at)), pending(name, 256, due(at)))
			}
		}
	}
	slices.SortFunc(out, func(a, b store.Record) int {
		return cmp.Or(cmp.Compare(a.State.Due, b.State.Due), a.Compare(b.Ref))
	})
	return out
}

// putShuffled puts records in an order that has nothing to do with theirs.
func (s shard) putShuffled(records []store.Record) {
	s.Helper()
	mixed := slices.Clone(records)
	slices.SortStableFunc(mixed, func(a, b store.Record) int {
		return cmp.Compare(store.KeyHash(a.Key), store.KeyHash(b.Key))
	})
	for part := range slices.Chunk(mixed, 10) {
		s.put(part...)
	}
}

func dueOrder(e *env) {
	s := e.own(3)
	mix := dueMix()
	s.putShuffled(mix)
	s.wantRecords("Due", s.due(allDue(2)), mix...)
}

func dueOnePriority(e *env) {
	s := e.own(3)
	for rank := range uint8(4) {
		s.put(job(fmt.Sprint("first of ", rank), priority(rank), due(base)),
			job(fmt.Sprint("second of ", rank), priority(rank), due(base+1)))
	}
	for rank := range uint8(4) {
		s.wantNames(fmt.Sprint("Due of priority ", rank), s.due(allDue(rank)), fmt.Sprint("first of ", rank),
			fmt.Sprint("second of ", rank))
	}
}

func dueUntil(e *env) {
	s := e.own(3)
	s.put(job("before", due(base-1)), job("a", due(base)), job("b", due(base)), job("after", due(base+1)))
	at := func(until int64) []store.Record {
		return s.due(store.DueQuery{Priority: 2, Until: until, Limit: plenty})
	}
	s.wantNames("Due until just before", at(base-1), "before")
	s.wantNames("Due until", at(base), "before", "a", "b")
	s.wantNames("Due until just after", at(base+1), "before", "a", "b", "after")
	s.wantNames("Due until long before", at(base-2))
}

func dueCursor(e *env) {
	s := e.own(3)
	s.put(job("a", due(base)), job("b", due(base)), pending("b", 1, due(base)), job("c", due(base+1)))
	after := func(at int64, ref store.Ref) []store.Record {
		q := allDue(2)
		q.After = store.Cursor{Due: at, Ref: ref}
		return s.due(q)
	}
	s.wantRefs("after a", after(base, jobRef("a")), jobRef("b"), pendingRef("b", 1), jobRef("c"))
	s.wantRefs("after b", after(base, jobRef("b")), pendingRef("b", 1), jobRef("c"))
	s.wantRefs("after b's pending run", after(base, pendingRef("b", 1)), jobRef("c"))
	s.wantRefs("after what is not there", after(base, jobRef("aa")), jobRef("b"),
		pendingRef("b", 1), jobRef("c"))
	s.wantRefs("after a time", after(base+1, store.Ref{}), jobRef("c"))
	s.wantRefs("after the last", after(base+1, jobRef("c")))
}

func duePages(e *env) {
	s := e.own(3)
	mix := dueMix()
	s.putShuffled(mix)
	for i := range mix {
		mix[i].Exists = true
	}
	checkPages(e, mix, canonRecord, func(after *store.Record, limit int) []store.Record {
		q := allDue(2)
		q.Limit = limit
		if after != nil {
			q.After = afterDue(*after)
		}
		return s.due(q)
	})
}

func dueZeroCursor(e *env) {
	s := e.own(3)
	s.put(job("before 1970", due(-5)), job("long before", due(math.MinInt64)), job("after 1970", due(5)))
	s.wantNames("Due", s.due(allDue(2)), "long before", "before 1970", "after 1970")
	q := allDue(2)
	q.After = store.Cursor{Due: -5, Ref: jobRef("before 1970")}
	s.wantNames("Due after a time before 1970", s.due(q), "after 1970")
	q = store.DueQuery{Priority: 2, Until: -5, Limit: plenty}
	s.wantNames("Due until a time before 1970", s.due(q), "long before", "before 1970")
}

func dueNone(e *env) {
	s := e.own(3)
	s.put(job("never", phase(carillon.PhasePaused)), job("some day", due(1)))
	s.wantNames("Due", s.due(allDue(2)), "some day")
}

func dueRewrite(e *env) {
	s := e.own(3)
	s.put(job("a", due(base)), job("b", due(base+1)))
	s.put(job("a", stateOnly, due(base+2)))
	s.wantNames("Due after a moved back", s.due(allDue(2)), "b", "a")
	s.put(job("a", due(base+1), stateOnly), job("b", due(base), stateOnly))
	s.wantNames("Due after both moved", s.due(allDue(2)), "b", "a")
	s.put(job("a", priority(0), due(base+1), stateOnly))
	s.wantNames("Due of the priority left", s.due(allDue(2)), "b")
	s.wantNames("Due of the priority entered", s.due(allDue(0)), "a")
	s.put(job("a", priority(0), stateOnly))
	s.wantNames("Due after the due time went", s.due(allDue(0)))
	s.put(job("b", due(base), stateOnly))
	s.wantRecords("Due after a rewrite that changes nothing", s.due(allDue(2)), job("b", due(base)))
}

func dueUnderWrites(e *env) {
	s := e.own(3)
	s.put(job("a", due(base)), job("b", due(base+1)), job("c", due(base+2)), job("d", due(base+3)),
		job("e", due(base+4)))
	q := allDue(2)
	q.Limit = 2
	page := s.due(q)
	s.wantNames("first page", page, "a", "b")
	s.apply(store.Batch{
		Deletes: []store.Ref{jobRef("b"), jobRef("c")},
		Puts:    []store.Record{job("a", due(base+3)), job("before", due(base)), job("between", due(base+2))},
	})
	q.After = afterDue(page[1])
	page = s.due(q)
	s.wantNames("second page", page, "between", "a")
	q.After = afterDue(page[1])
	s.wantNames("third page", s.due(q), "d", "e")
}

func dueMaxSpec(e *env) {
	s := e.own(3)
	short, exact, long := make([]byte, 99), make([]byte, 100), make([]byte, 101)
	s.put(job("a", full, spec(short)), job("b", full, spec(exact)), job("c", full, spec(long)),
		pending("d", 1, full))
	q := allDue(1)
	want := func(what string, a, b, c []byte) {
		s.Helper()
		s.wantRecords(what, s.due(q), job("a", full, spec(a)), job("b", full, spec(b)),
			job("c", full, spec(c)), pending("d", 1, full))
	}
	want("without a limit", short, exact, long)
	q.MaxSpec = 100
	want("up to 100 bytes", short, exact, nil)
	q.MaxSpec = 1
	want("up to 1 byte", nil, nil, nil)
	s.wantRecord(job("c", full, spec(long)))
}
