package engine

import (
	"slices"
	"testing"

	"github.com/carillonhq/carillon"
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

// keptAs is what a store has of one namespace.
func keptAs(name string, generation uint64) *kept { return &kept{namespaces: named(name, generation)} }

// TestTheOwnersSettingsAreNewer: what another node reads does not replace what the owner has.
func TestTheOwnersSettingsAreNewer(t *testing.T) {
	owned := false
	k, changed := newKept(&owned)
	k.take(keptAs("n", 2))
	owned = true
	k.take(keptAs("n", 1))
	if n := k.all.get("n"); n == nil || n.Generation != 2 || !slices.Equal(*changed, []string{"n"}) {
		t.Errorf("in force: %+v, changed: %v", n, *changed)
	}
	owned = false
	before := k.taken.Load()
	k.take(keptAs("n", 3))
	k.takeGathered(keptAs("n", 1), before) // read before the other
	if n := k.all.get("n"); n == nil || n.Generation != 3 {
		t.Errorf("in force: %+v", n)
	}
}

// TestPutSettingsCountOnceDurable: they are compared with at once, and in force when they are durable.
func TestPutSettingsCountOnceDurable(t *testing.T) {
	owned := true
	k, changed := newKept(&owned)
	n := named("n", 2)["n"]
	settled := k.put(n)
	if k.all.get("n") != nil || k.unsettled["n"] != n {
		t.Error("in force before it is durable, or not compared with")
	}
	settled(errTest)
	if k.all.get("n") != nil || k.unsettled["n"] != nil || len(*changed) != 0 {
		t.Error("it was not stored, and counts")
	}
	k.put(n)(nil)
	if k.all.get("n") != n || k.unsettled["n"] != nil || !slices.Equal(*changed, []string{"n"}) {
		t.Error("it is stored, and not in force")
	}
	newer := named("n", 3)["n"]
	first, second := k.put(n), k.put(newer)
	if first(nil); k.unsettled["n"] != newer {
		t.Error("the next put is compared with the older one")
	}
	if second(nil); k.all.get("n") != newer || len(k.unsettled) != 0 {
		t.Error("the newer one is not in force")
	}
}
