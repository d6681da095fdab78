package engine

import (
	"slices"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// newKept returns the kept settings of a partition that keeps all namespaces, and what has changed.
func newKept(owned *bool) (*keptSettings, *[]string) {
	var changed []string
	return &keptSettings{
		all: newSettings(), reading: newTurn(), keeps: func(string) bool { return true },
		owned: func() bool { return *owned }, changed: func(name string) { changed = append(changed, name) },
	}, &changed
}

func named(name string, generation uint64) map[string]*carillon.Namespace {
	return map[string]*carillon.Namespace{name: {Name: name, Generation: generation}}
}

// TestTheOwnersSettingsAreNewer: what another node reads does not replace what the owner has.
func TestTheOwnersSettingsAreNewer(t *testing.T) {
	owned := true
	k, changed := newKept(&owned)
	k.take(named("n", 2), func() bool { return true })
	k.takeRemote(named("n", 1))
	if n := k.all.get("n"); n == nil || n.Generation != 2 || !slices.Equal(*changed, []string{"n"}) {
		t.Errorf("in force: %+v, changed: %v", n, *changed)
	}
	owned = false
	before := k.taken.Load()
	k.takeRemote(named("n", 3))
	k.takeGathered(named("n", 1), before) // read before the other
	if n := k.all.get("n"); n == nil || n.Generation != 3 {
		t.Errorf("in force: %+v", n)
	}
}

// TestPutSettingsCountOnceDurable: they are compared with at once, and in force when they are durable.
func TestPutSettingsCountOnceDurable(t *testing.T) {
	owned := true
	k, changed := newKept(&owned)
	term, n := store.Term{Epoch: 1}, named("n", 2)["n"]
	settled := k.put(term, n)
	if k.all.get("n") != nil || k.unsettled.newest(term, "n") != n {
		t.Error("in force before it is durable, or not compared with")
	}
	settled(errTest)
	if k.all.get("n") != nil || k.unsettled.newest(term, "n") != nil || len(*changed) != 0 {
		t.Error("it was not stored, and counts")
	}
	k.put(term, n)(nil)
	if k.all.get("n") != n || k.unsettled.newest(term, "n") != nil || !slices.Equal(*changed, []string{"n"}) {
		t.Error("it is stored, and not in force")
	}
	if k.put(term, n); k.unsettled.newest(store.Term{Epoch: 2}, "n") != nil {
		t.Error("what an earlier term wrote is in the store, or lost")
	}
}
