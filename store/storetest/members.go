package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/carillonhq/carillon/store"
)

var memberCases = []Case{
	{Name: "members/those that joined, by id", check: membersJoined},
	{Name: "members/joining again renews and rewrites", check: membersRejoin},
	{Name: "members/leave removes", check: membersLeave},
	{Name: "members/an expired member does not live", check: membersExpire},
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
	text := func(m store.Member) string { return fmt.Sprintf("%q %q %d", m.ID, m.Address, m.Capacity) }
	e.wantTexts(what, canons(got, text), canons(want, text))
}

func member(n int) store.Member {
	return store.Member{ID: fmt.Sprintf("node-%02d", n), Address: fmt.Sprint("host:", n), Capacity: n}
}

func membersJoined(e *env) {
	e.wantMembers("of a new store")
	e.join(lasting, member(2), member(10), member(1))
	e.wantMembers("after three joined", member(1), member(2), member(10))
}

func membersRejoin(e *env) {
	e.join(e.shortly(), member(1), member(2))
	moved := member(1)
	moved.Address, moved.Capacity = "elsewhere:1", 99
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
	e.must(e.leaser().Leave(e.Context(), member(1).ID))
	e.must(e.leaser().Leave(e.Context(), "nobody"))
	e.wantMembers("after one left", member(2))
	e.join(lasting, member(1))
	e.wantMembers("after it came back", member(1), member(2))
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
