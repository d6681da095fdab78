package partition_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// toldOf is what the store has of what was told.
func (r *rig) toldOf() map[string]store.Told {
	all, err := partition.DecodeTold(r.small(store.KindTold))
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// tells returns what is recorded by f and what follows it, as texts.
func (r *rig) tells(after *uint64, f func()) []string {
	r.t.Helper()
	r.m.Begin()
	f()
	r.flush()
	var all []string
	for _, e := range r.events(*after) {
		all = append(all, fmt.Sprint(e.Type, " ", e.Node, e.Key.Namespace, e.Queue))
	}
	if records := r.eventRecords(store.MetaQuery{Kind: store.KindEvents}); len(records) > 0 {
		*after = partition.EventNumber(records[len(records)-1].Key)
	}
	return all
}

func TestWhatWasToldOfNodesIsNotToldAgain(t *testing.T) {
	r := newRig(t, partition.Config{})
	after := r.watch()
	see := func(want []string, nodes ...partition.SeenNode) {
		t.Helper()
		for _, want := range [][]string{want, nil} { // the second time nothing is new
			if got := r.tells(&after, func() { r.m.Told.Nodes(r.now, nodes) }); !slices.Equal(got, want) {
				t.Errorf("told %q, want %q", got, want)
			}
		}
		r.start()
	}
	a, b := partition.SeenNode{Name: "a", Nonce: 1}, partition.SeenNode{Name: "b", Nonce: 2}
	see([]string{"node.joined a", "node.joined b"}, b, a)
	a.Leaving = true
	see(nil, a, b)
	see([]string{"node.left a"}, b)
	again := partition.SeenNode{Name: "b", Nonce: 3}
	see([]string{"node.lost b", "node.joined b"}, again)
	see([]string{"node.lost b"})
	if n := len(r.small(store.KindTold)); n != 0 {
		t.Errorf("%d records are left of nodes that are gone", n)
	}
}

// TestNodesThatCameWhileNobodyWatchedAreNoNews to whoever watches later.
func TestNodesThatCameWhileNobodyWatchedAreNoNews(t *testing.T) {
	r := newRig(t, partition.Config{})
	a := partition.SeenNode{Name: "a", Nonce: 1}
	r.m.Told.Nodes(r.now, []partition.SeenNode{a})
	r.flush()
	after := r.watch()
	if got := r.tells(&after, func() { r.m.Told.Nodes(r.now, []partition.SeenNode{a}) }); got != nil {
		t.Errorf("told %q", got)
	}
}

func TestUnservedQueuesAreToldOnceTheyAreSoForLong(t *testing.T) {
	r := newRig(t, partition.Config{})
	after := r.watch()
	see := func(want []string, queues ...partition.UnservedQueue) {
		t.Helper()
		for _, want := range [][]string{want, nil} {
			if got := r.tells(&after, func() { r.m.Told.Queues(r.now, queues) }); !slices.Equal(got, want) {
				t.Errorf("told %q, want %q", got, want)
			}
		}
		r.start()
	}
	mail := partition.UnservedQueue{Queue: delivery.Queue{Namespace: "n/", Kind: "worker", Address: "mail"},
		Since: r.now}
	see(nil, mail)
	mail.Long = true
	see([]string{"queue.unserved n/mail"}, mail)
	mail.Long = false // the next node in charge has not seen it for so long
	see(nil, mail)
	see([]string{"queue.served n/mail"})

	var many []partition.UnservedQueue
	for i := range partition.MostToldQueues + 10 {
		many = append(many, partition.UnservedQueue{Long: true, Since: r.now + int64(i),
			Queue: delivery.Queue{Namespace: "n", Kind: "worker", Address: fmt.Sprint(i)}})
	}
	told := r.tells(&after, func() { r.m.Told.Queues(r.now, many) })
	if len(told) != partition.MostToldQueues || told[0] != "queue.unserved n0" {
		t.Errorf("%d are told of, first %q", len(told), told[0])
	}
	r.now += int64(time.Second)
	if e := r.events(0); e[len(e)-1].Type != carillon.EventQueueUnserved || e[len(e)-1].From == 0 ||
		e[len(e)-1].QueueKind != "worker" {
		t.Errorf("%+v", e[len(e)-1])
	}
}
