package permitrecord_test

import (
	"reflect"
	"strings"
	"testing"
	"testing/quick"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/permitrecord"
	"github.com/carillonhq/carillon/server/store"
)

func text(s string) string { return strings.ReplaceAll(s, "\x00", "0") }

// TestHeldIsReadAsWritten: what a record says is what was to be said, its key begins with the limit's prefix,
// and a key that lacks a part says nothing.
func TestHeldIsReadAsWritten(t *testing.T) {
	if err := quick.Check(func(namespace, key, name string, seq uint64) bool {
		l := delivery.Limit{Namespace: text(namespace), Key: text(key)}
		h := permitrecord.Held{Limit: l,
			Of: store.Ref{Key: carillon.Key{Namespace: l.Namespace, Name: text(name)}, Seq: seq}}
		r := h.Record()
		is, ok := permitrecord.ParseHeld(&r)
		cut := store.MetaRecord{Key: r.Key[:strings.LastIndex(r.Key, "\x00")]}
		_, short := permitrecord.ParseHeld(&cut)
		return ok && is == h && strings.HasPrefix(r.Key, permitrecord.HeldPrefix(l)) && !short
	}, nil); err != nil {
		t.Error(err)
	}
}

// TestAllocationIsReadAsWritten: what a record says is what was to be said, and one that is cut says nothing.
func TestAllocationIsReadAsWritten(t *testing.T) {
	if err := quick.Check(func(namespace, key string, p, n uint16, term store.Term) bool {
		a := permitrecord.Allocation{Limit: delivery.Limit{Namespace: text(namespace), Key: text(key)},
			Partition: int(p), N: int(n) + 1, Term: term}
		r := a.Record()
		is, ok := permitrecord.ParseAllocation(&r)
		for cut := range len(r.Value) {
			if _, short := permitrecord.ParseAllocation(&store.MetaRecord{Key: r.Key, Value: r.Value[:cut]}); short {
				return false
			}
		}
		return ok && reflect.DeepEqual(is, a)
	}, nil); err != nil {
		t.Error(err)
	}
	if r := (permitrecord.Allocation{Partition: 3}).Record(); r.Value != nil {
		t.Errorf("no permits are stored as %q", r.Value)
	}
}
