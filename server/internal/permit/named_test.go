package permit_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/permit"
)

func catLimit(key string, most int) delivery.NamedLimit {
	return delivery.NamedLimit{Limit: delivery.ActorLimit("ns", "cat", key), Most: most}
}

func name(t *testing.T, of *permit.Named, now int64, limits ...delivery.NamedLimit) (*permit.Stream, []string) {
	t.Helper()
	s, changed, err := of.Name(now, limits)
	if err != nil {
		t.Fatal(err)
	}
	return s, changed
}

func numberOf(of *permit.Named, key string) string {
	if n, limited := of.Limit(delivery.ActorLimit("ns", "cat", key)); limited {
		return fmt.Sprint(n)
	}
	return "none"
}

// TestTheNewestOfALivingStreamCounts, also if two name a limit at one instant, or the clock is set back.
func TestTheNewestOfALivingStreamCounts(t *testing.T) {
	n := permit.NewNamed()
	a, changed := name(t, n, 9, catLimit("", 3), catLimit("", 4))
	if numberOf(n, "") != "4" || !slices.Equal(changed, []string{"ns"}) {
		t.Fatalf("%s, %v", numberOf(n, ""), changed)
	}
	b, _ := name(t, n, 9, catLimit("", 7))
	if c, changed := name(t, n, 2, catLimit("", 7), catLimit("k", 1)); numberOf(n, "") != "7" ||
		!slices.Equal(changed, []string{"ns"}) || numberOf(n, "k") != "1" {
		t.Fatalf("%s, %v", numberOf(n, ""), changed)
	} else if changed := n.End(c); len(changed) != 1 || numberOf(n, "k") != "none" {
		t.Fatalf("%v", changed)
	}
	if n.End(b); numberOf(n, "") != "4" {
		t.Fatalf("%s after the newest has ended", numberOf(n, ""))
	}
	if changed := n.End(b); len(changed) != 0 || numberOf(n, "") != "4" {
		t.Fatalf("ended twice: %v", changed)
	}
	if n.End(a); numberOf(n, "") != "none" {
		t.Fatal("it outlives those who have named it")
	}
	if own, _ := n.Own(); len(own) > 0 {
		t.Errorf("left: %v", own)
	}
	if _, changed := name(t, n, 1); len(changed) > 0 {
		t.Errorf("nothing was named, and yet %v changed", changed)
	}
}

// table is what a node tells.
func table(of *permit.Named, node string) *message.LimitTable {
	own, version := of.Own()
	return &message.LimitTable{Node: node, Nonce: 1, Version: version, Limits: own}
}

func TestALimitThatAnotherNodeHasNamed(t *testing.T) {
	a, b := permit.NewNamed(), permit.NewNamed()
	s, _ := name(t, a, 5, catLimit("", 3))
	old := table(a, "a")
	if changed := b.Hear(10, old); numberOf(b, "") != "3" || len(changed) != 1 {
		t.Fatalf("%s, %v", numberOf(b, ""), changed)
	}
	if changed := b.Hear(11, old); len(changed) != 0 {
		t.Fatalf("heard again: %v", changed)
	}
	mine, _ := name(t, b, 1, catLimit("", 8)) // by a clock that is behind
	if a.Hear(12, table(b, "b")); numberOf(a, "") != "8" || numberOf(b, "") != "8" {
		t.Fatalf("%s, %s", numberOf(a, ""), numberOf(b, ""))
	}
	a.End(s)
	b.Hear(13, table(a, "a"))
	if b.Hear(14, old); numberOf(b, "") != "8" {
		t.Fatal("a table that is late counts")
	}
	b.End(mine)
	if a.Hear(15, table(b, "b")); numberOf(a, "") != "none" || numberOf(b, "") != "none" {
		t.Fatalf("%s, %s", numberOf(a, ""), numberOf(b, ""))
	}
}

// TestALostNodeLosesItsTable, once it is no member; one that is heard of before it is seen does not. A process
// that takes its name begins from the start.
func TestALostNodeLosesItsTable(t *testing.T) {
	a, b := permit.NewNamed(), permit.NewNamed()
	name(t, a, 5, catLimit("", 3))
	told := table(a, "a")
	b.Hear(1000, told)
	nobody := func(message.Process) bool { return false }
	if changed := b.Keep(1000+permit.KeepFor-1, nobody); len(changed) > 0 {
		t.Fatal("it was forgotten before it could be seen among the members")
	}
	if b.Keep(1000+permit.KeepFor, func(p message.Process) bool { return p == told.Process() }); numberOf(b, "") != "3" {
		t.Fatal("that of a member was forgotten")
	}
	again := *told
	again.Nonce, again.Version, again.Limits = 2, 1, []delivery.NamedLimit{catLimit("", 4)}
	again.Limits[0].Stamp = 99
	if b.Hear(1001, &again); numberOf(b, "") != "4" {
		t.Fatal("the process that follows is not heard")
	}
	if changed := b.Keep(1001+permit.KeepFor, nobody); numberOf(b, "") != "none" || len(changed) != 1 {
		t.Fatalf("%s, %v", numberOf(b, ""), changed)
	}
}

func TestTheTableOfANodeIsBounded(t *testing.T) {
	n := permit.NewNamed()
	long := strings.Repeat("x", 500)
	var last *permit.Stream
	var refused error
	taken := 0
	for i := 0; refused == nil && i < 100; i++ {
		var all []delivery.NamedLimit
		for k := range 1000 {
			all = append(all, catLimit(fmt.Sprint(long, i, ".", k), 1))
		}
		s, _, err := n.Name(1, all)
		if refused = err; err == nil {
			last, taken = s, taken+1
		}
	}
	if !errors.Is(refused, carillon.ResourceExhausted) || taken != permit.MaxNamedBytes/508/1000 {
		t.Fatalf("%d streams were taken; %v", taken, refused)
	}
	if own, _ := n.Own(); len(own) != taken*1000 {
		t.Errorf("%d limits: what was refused was taken in part", len(own))
	}
	n.End(last)
	if _, _, err := n.Name(1, []delivery.NamedLimit{catLimit("k", 1)}); err != nil {
		t.Errorf("there is room again: %v", err)
	}
}

// limitsOf returns different limits, with names of some length.
func limitsOf(node string, n, length int) (all []delivery.NamedLimit) {
	for k := range n {
		all = append(all, catLimit(fmt.Sprintf("%s.%0*d", node, length, k), 1))
	}
	return all
}

// TestWhatAllNodesHaveNamedIsBounded: who would name more is refused, and nothing of others is forgotten for it.
func TestWhatAllNodesHaveNamedIsBounded(t *testing.T) {
	const nodes, each, long = permit.MaxNamedBytesByAll / permit.MaxNamedBytes, 40, 100_000
	n := permit.NewNamed()
	mine, _ := name(t, n, 4, limitsOf("mine", 1, long)...)
	var last *permit.Stream
	for i := range nodes {
		other := permit.NewNamed()
		last, _ = name(t, other, 5, limitsOf(fmt.Sprint(i), each, long)...)
		if n.Hear(10, table(other, fmt.Sprint(i))); i < nodes-1 {
			continue
		}
		_, _, err := n.Name(11, limitsOf("more", each/2, long))
		if !errors.Is(err, carillon.ResourceExhausted) || !strings.Contains(err.Error(), "concurrency_limits") ||
			!strings.Contains(err.Error(), "all nodes") {
			t.Error(err)
		}
		if len(n.All()) != nodes*each+1 {
			t.Errorf("%d limits are in force", len(n.All()))
		}
		name(t, other, 12, limitsOf("beyond", 1, long)...) // it has not heard of the others
		n.Hear(12, table(other, fmt.Sprint(i)))
		again, _ := name(t, n, 13, limitsOf("mine", 1, long)...) // no more than before
		n.End(again)
		other.End(last)
		n.Hear(14, table(other, fmt.Sprint(i)))
	}
	name(t, n, 15, limitsOf("more", each/2, long)...)
	n.End(mine)
}

// TestNamingsAreBounded: many streams may name the same limits, but not without end.
func TestNamingsAreBounded(t *testing.T) {
	n := permit.NewNamed()
	all := limitsOf("a", 1<<14, 1)
	var streams []*permit.Stream
	for range permit.MaxNamings >> 14 {
		s, _ := name(t, n, 1, all...)
		streams = append(streams, s)
	}
	if _, _, err := n.Name(2, limitsOf("a", 1, 1)); !errors.Is(err, carillon.ResourceExhausted) ||
		!strings.Contains(err.Error(), "concurrency_limits") {
		t.Fatal(err)
	}
	for _, s := range streams {
		n.End(s)
		n.End(s)
	}
	name(t, n, 3, all...)
	if own, _ := n.Own(); len(own) != len(all) {
		t.Errorf("%d limits", len(own))
	}
}

// TestNodesAgree: whatever is named and ended where, and in which order tables arrive, once all have heard the
// last of each other they have the same numbers: the newest of each limit that a stream still names.
func TestNodesAgree(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		type stream struct {
			*permit.Stream
			at     int
			stamp  int
			limits map[string]int
		}
		nodes := []*permit.Named{permit.NewNamed(), permit.NewNamed(), permit.NewNamed()}
		sent := []*message.LimitTable{}
		var live []stream
		pick := func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "pick") }
		tell := func(from, to int) { nodes[to].Hear(1, table(nodes[from], fmt.Sprint(from))) }
		for i := range rapid.IntRange(0, 40).Draw(rt, "steps") {
			switch at := pick(3); pick(5) {
			case 0, 1:
				s := stream{at: at, stamp: i, limits: map[string]int{}}
				var all []delivery.NamedLimit
				for range 1 + pick(2) {
					key, most := fmt.Sprint("k", pick(2)), 1+pick(9)
					s.limits[key] = most
					all = append(all, catLimit(key, most))
				}
				var err error
				if s.Stream, _, err = nodes[at].Name(int64(i*100+pick(50)), all); err != nil {
					rt.Fatal(err)
				}
				live = append(live, s)
			case 2:
				if len(live) > 0 {
					i := pick(len(live))
					nodes[live[i].at].End(live[i].Stream)
					live = slices.Delete(live, i, i+1)
				}
			case 3:
				sent = append(sent, table(nodes[at], fmt.Sprint(at)))
				tell(at, (at+1+pick(2))%3)
			case 4:
				if len(sent) > 0 { // late, or again
					if m := sent[pick(len(sent))]; m.Node != fmt.Sprint(at) {
						nodes[at].Hear(1, m)
					}
				}
			}
		}
		want := map[string]string{"k0": "none", "k1": "none"}
		newest := map[string]int{}
		for _, s := range live {
			for key, most := range s.limits {
				if s.stamp >= newest[key] {
					newest[key], want[key] = s.stamp, fmt.Sprint(most)
				}
			}
		}
		for from := range nodes {
			for to := range nodes {
				if from != to {
					tell(from, to)
				}
			}
		}
		for i, n := range nodes {
			got := map[string]string{"k0": numberOf(n, "k0"), "k1": numberOf(n, "k1")}
			if !maps.Equal(got, want) {
				rt.Fatalf("node %d has %v, not %v", i, got, want)
			}
		}
	})
}
