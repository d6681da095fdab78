package pebble_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/pebble"
)

var errCompaction = errors.New("a compaction failed")

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

// TestOptionsOfTellsOperators: what only people want to know goes to the log, all else to the events.
func TestOptionsOfTellsOperators(t *testing.T) {
	var log strings.Builder
	var damage store.Damage
	o := pebble.OptionsOf(store.Options{
		Events: store.Events{Damaged: func(d store.Damage) { damage = d }},
		Log:    slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	o.Events.Stall("memtables are full")
	o.Events.Stall("")
	o.Events.Background(errCompaction)
	o.Events.Log("hello")
	o.Events.Exposed("/data", 0o755)
	o.Events.Damaged(store.Damage{Part: "7.sst", Partitions: []int{3}, Cause: errCompaction})
	for _, want := range []string{"level=WARN msg=\"the store waits for the disk\" reason=\"memtables are full\"",
		"level=ERROR msg=\"the store's housekeeping failed\"", "level=DEBUG msg=pebble text=hello",
		"folder=/data mode=0755"} {
		if strings.Count(log.String(), want) != 1 {
			t.Errorf("%q is not once in\n%s", want, log.String())
		}
	}
	if damage.Part != "7.sst" || len(damage.Partitions) != 1 || damage.Cause == nil {
		t.Errorf("damage %+v", damage)
	}
}
