package storetest

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

var memberCases = []Case{
	{Name: "members/those that joined, by id", check: membersJoined},
	{Name: "members/joining again renews and rewrites", check: membersRejoin},
	{Name: "members/leave removes", check: membersLeave},
	{Name: "members/an expired member does not live", check: membersExpire},
	{Name: "members/leave removes the member of that nonce only", check: membersLeaveOwn},
	{Name: "members/a living member's id is taken", check: membersTaken},
	{Name: "members/an expired member's id is free", check: membersReplaced},
	{Name: "members/one retires while another may own something", check: membersRetire},
	{Name: "members/the last one cannot retire", check: membersLast},
	{Name: "members/of many that retire at once one stays", check: membersRaceToRetire},
	{Name: "members/of many with one id one joins", check: membersRaceForID},
	{Name: "members/many join at once", check: membersRace},
}

func (e *env) join(ttl time.Duration, members ...store.Member) {
	e.Helper()
	for _, m := range members {
		e.must(e.leaser().Join(e.Context(), m, ttl))
	}
}

func (e *env) wantMembers(what string, want ...store.Member) {
	e.Helper()
	got, err := e.leaser().Members(e.Context())
	e.must(err)
	text := func(m store.Member) string { return fmt.Sprintf("%#v", m) }
	e.wantTexts(what, canons(got, text), canons(want, text))
}

func member(n int) store.Member {
	return store.Member{ID: fmt.Sprintf("node-%02d", n), Address: fmt.Sprint("host:", n),
		HTTP: fmt.Sprint("web:", n), Sidecars: fmt.Sprint("dapr:", n), Capacity: n,
		Nonce: math.MaxUint64 - uint64(n), Settings: fmt.Sprintf("{\"n\": %d}", n),
		State: fmt.Sprintf("{\"phase\": \"of %d\"}", n)}
}

// retired is the member as one that is to own nothing.
func retired(m store.Member) store.Member {
	m.Capacity = 0
	return m
}

func membersRetire(e *env) {
	e.join(lasting, member(1), member(2))
	for range 2 { // it may be repeated
		e.must(e.leaser().Retire(e.Context(), retired(member(1)), lasting))
		e.wantMembers("after one retired", retired(member(1)), member(2))
	}
	err := e.leaser().Retire(e.Context(), retired(other(member(2), 7)), lasting)
	if !errors.Is(err, store.ErrLast) && !errors.Is(err, store.ErrTaken) {
		e.Fatalf("another process retires as the last: %v", err)
	}
	e.must(e.leaser().Retire(e.Context(), retired(member(3)), lasting)) // it did not live
	if err := e.leaser().Retire(e.Context(), retired(other(member(1), 7)),
		lasting); !errors.Is(err, store.ErrTaken) {
		e.Fatalf("another process retires: %v", err)
	}
	e.wantMembers("after others did", retired(member(1)), member(2), retired(member(3)))
}

func membersLast(e *env) {
	alone := func(what string, want ...store.Member) {
		e.Helper()
		if err := e.leaser().Retire(e.Context(), retired(member(1)), lasting); !errors.Is(err, store.ErrLast) {
			e.Fatalf("%s: retire: %v", what, err)
		}
		e.wantMembers(what, want...)
	}
	alone("with nobody there")
	e.join(lasting, member(1))
	alone("alone", member(1))
	e.join(lasting, retired(member(2)))
	alone("with one that is to own nothing", member(1), retired(member(2)))
	e.join(e.shortly(), member(3))
	e.eventually("the other has gone", func() bool {
		got, err := e.leaser().Members(e.Context())
		e.must(err)
		return len(got) == 2
	})
	alone("with one that has expired", member(1), retired(member(2)))
	e.join(lasting, member(2))
	e.must(e.leaser().Retire(e.Context(), retired(member(1)), lasting))
}

func membersRaceToRetire(e *env) {
	for range 10 {
		var mu sync.Mutex
		var wg sync.WaitGroup
		done := 0
		start := make(chan struct{})
		for i := range 6 {
			e.join(lasting, member(i+1))
			wg.Go(func() {
				<-start
				switch err := e.leaser().Retire(e.Context(), retired(member(i+1)), lasting); {
				case err == nil:
					mu.Lock()
					defer mu.Unlock()
					done++
				case !errors.Is(err, store.ErrLast):
					e.Error(err)
				}
			})
		}
		close(start)
		wg.Wait()
		if done != 5 {
			e.Fatalf("%d of 6 retired at once", done)
		}
	}
}

func membersJoined(e *env) {
	e.wantMembers("of a new store")
	e.join(lasting, member(2), member(10), member(1))
	e.wantMembers("after three joined", member(1), member(2), member(10))
	plain := store.Member{ID: "plain", Nonce: 1} // without what may be empty, and to own nothing
	e.join(lasting, plain)
	e.wantMembers("after a plain one joined", member(1), member(2), member(10), plain)
}

func membersRejoin(e *env) {
	e.join(e.shortly(), member(1), member(2))
	moved := member(1)
	moved.Address, moved.HTTP, moved.Capacity = "elsewhere:1", "", 0
	moved.Sidecars = "a \"name\"\\ with spaces:1"
	moved.State = "moved"
	e.join(lasting, moved)
	e.eventually("member 2 has gone", func() bool {
		got, err := e.leaser().Members(e.Context())
		e.must(err)
		return len(got) == 1
	})
	e.wantMembers("after one joined again", moved)
}

func membersLeave(e *env) {
	e.join(lasting, member(1), member(2))
	e.must(e.leaser().Leave(e.Context(), member(1).ID, 0))
	e.must(e.leaser().Leave(e.Context(), "nobody", 0))
	e.wantMembers("after one left", member(2))
	e.join(lasting, member(1))
	e.wantMembers("after it came back", member(1), member(2))
}

func membersLeaveOwn(e *env) {
	e.join(lasting, member(1), member(2))
	e.must(e.leaser().Leave(e.Context(), member(1).ID, member(2).Nonce))
	e.must(e.leaser().Leave(e.Context(), "nobody", member(2).Nonce))
	e.wantMembers("after they left under wrong nonces", member(1), member(2))
	e.must(e.leaser().Leave(e.Context(), member(1).ID, member(1).Nonce))
	e.wantMembers("after one left under its own", member(2))
}

// other is another process that thinks it is the member.
func other(m store.Member, n uint64) store.Member {
	m.Address, m.Nonce = fmt.Sprint("other:", n), n
	return m
}

func membersTaken(e *env) {
	e.join(lasting, member(1))
	for range 2 {
		if err := e.leaser().Join(e.Context(), other(member(1), 7), lasting); !errors.Is(err, store.ErrTaken) {
			e.Fatalf("another node joins as one that lives: %v", err)
		}
		e.wantMembers("after another wanted the id", member(1))
	}
	e.must(e.leaser().Leave(e.Context(), member(1).ID, 7))
	e.wantMembers("after the other left", member(1))
	e.join(lasting, member(1))
	e.must(e.leaser().Leave(e.Context(), member(1).ID, member(1).Nonce))
	e.join(lasting, other(member(1), 7))
	e.wantMembers("after the first left", other(member(1), 7))
	if err := e.leaser().Join(e.Context(), member(1), lasting); !errors.Is(err, store.ErrTaken) {
		e.Fatalf("the first joins again: %v", err)
	}
}

func membersReplaced(e *env) {
	e.join(e.shortly(), member(1))
	e.eventually("the id of an expired member is free", func() bool {
		err := e.leaser().Join(e.Context(), other(member(1), 7), lasting)
		if err != nil && !errors.Is(err, store.ErrTaken) {
			e.Fatal(err)
		}
		return err == nil
	})
	e.wantMembers("after another joined", other(member(1), 7))
	e.must(e.leaser().Leave(e.Context(), member(1).ID, member(1).Nonce))
	e.wantMembers("after the first left", other(member(1), 7))
}

func membersRaceForID(e *env) {
	var mu sync.Mutex
	var won []store.Member
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range uint64(30) {
		wg.Go(func() {
			<-start
			m := other(member(1), i+1)
			switch err := e.leaser().Join(e.Context(), m, lasting); {
			case err == nil:
				mu.Lock()
				defer mu.Unlock()
				won = append(won, m)
			case !errors.Is(err, store.ErrTaken):
				e.Error(err)
			}
		})
	}
	close(start)
	wg.Wait()
	if len(won) != 1 {
		e.Fatalf("%d of 30 joined under one id", len(won))
	}
	e.wantMembers("after 30 wanted one id", won...)
}

func membersExpire(e *env) {
	e.join(e.shortly(), member(1))
	e.join(lasting, member(2))
	e.eventually("member 1 has gone", func() bool {
		got, err := e.leaser().Members(e.Context())
		e.must(err)
		return len(got) == 1 && got[0] == member(2)
	})
	e.join(lasting, member(1))
	e.wantMembers("after it came back", member(1), member(2))
}

func membersRace(e *env) {
	var wg sync.WaitGroup
	var want []store.Member
	for i := range 30 {
		want = append(want, member(i))
		wg.Go(func() {
			for range 3 {
				if err := e.leaser().Join(e.Context(), member(i), lasting); err != nil {
					e.Error(err)
				}
			}
		})
	}
	wg.Wait()
	e.wantMembers("after 30 joined at once", want...)
}
