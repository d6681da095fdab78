package pebble

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	pebbledb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/carillonhq/carillon/server/store"
)

func TestOptionsHaveDefaults(t *testing.T) {
	o, err := Options{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if o.Partitions != store.DefaultPartitions || o.MemTableBytes != defaultMemTableBytes ||
		o.InlineSpec != defaultInlineSpec || o.Log == nil ||
		o.RetryAfter != defaultRetryAfter || o.Now == nil || o.FS != vfs.Default {
		t.Errorf("the defaults are %+v", o)
	}
}

// TestOptionsBelowZeroMeanNone: a negative value switches off what 0 gives its default.
func TestOptionsBelowZeroMeanNone(t *testing.T) {
	o, err := Options{Partitions: 7, InlineSpec: -1, RetryAfter: -1, MemTableBytes: -1}.withDefaults()
	if err != nil || o.Partitions != 7 || o.InlineSpec != -1 ||
		o.RetryAfter != -1*time.Nanosecond || o.MemTableBytes != defaultMemTableBytes {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestOptionsAreBounded(t *testing.T) {
	for n, valid := range map[int]bool{-1: false, 1: true, store.MaxPartitions: true,
		store.MaxPartitions + 1: false} {
		if _, err := (Options{Partitions: n}).withDefaults(); (err == nil) != valid {
			t.Errorf("%d partitions: %v", n, err)
		}
	}
}

// TestOperatorsAreTold: the log has what only people want to know.
func TestOperatorsAreTold(t *testing.T) {
	var log strings.Builder
	l := &listener{log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	l.stall(pebbledb.WriteStallBeginInfo{Reason: "memtables are full"})
	l.background(errors.New("compaction 3"))
	l.background(fmt.Errorf("block 7: %w", pebbledb.ErrCorruption)) // told as damage
	l.Infof("hello, %s", "you")
	for want, times := range map[string]int{"level=WARN msg=\"the store waits for the disk\" reason=\"memtables are full\"": 1,
		"level=ERROR msg=\"the store's housekeeping failed\"": 1, "block 7": 0, "level=DEBUG msg=pebble text=\"hello, you\"": 1} {
		if strings.Count(log.String(), want) != times {
			t.Errorf("%q is not %d times in\n%s", want, times, log.String())
		}
	}
}
