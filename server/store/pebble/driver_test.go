package pebble_test

import (
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/pebble"
	"github.com/carillonhq/carillon/server/store/storetest"
)

func TestAURLNamesAFolder(t *testing.T) {
	dir := t.TempDir() + "/store"
	s, err := store.Open(t.Context(), "pebble:"+dir, store.Options{Partitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	if n := s.Meta().Partitions; n != 2 {
		t.Errorf("%d partitions", n)
	}
	if _, err := store.Open(t.Context(), "pebble:"+dir, store.Options{}); err == nil {
		t.Error("it is opened twice")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := store.Open(t.Context(), "pebble:", store.Options{}); err == nil ||
		!strings.Contains(err.Error(), "names no folder") {
		t.Error(err)
	}
}

// TestOptionsOf passes on who is told of what.
func TestOptionsOf(t *testing.T) {
	var damage store.Damage
	var log storetest.Warnings
	o := pebble.OptionsOf(store.Options{Partitions: 7, Log: &log,
		Events: store.Events{Damaged: func(d store.Damage) { damage = d }}})
	o.Events.Damaged(store.Damage{Part: "7.sst"})
	o.Log.Warn("", "hello")
	if damage.Part != "7.sst" || len(log) != 1 || o.Partitions != 7 {
		t.Errorf("%+v, %q, damage %+v", o, log, damage)
	}
}
