package pebble

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/carillonhq/carillon/server/store"
)

func TestOptionsHaveDefaults(t *testing.T) {
	o, err := Options{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if o.Partitions != store.DefaultPartitions || o.MemTableBytes != defaultMemTableBytes ||
		o.InlineSpec != defaultInlineSpec || o.CommitBytes != defaultCommitBytes ||
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
	// A commit must fit into the memory table with room to spare.
	if o, err := (Options{MemTableBytes: 1 << 20, CommitBytes: 1 << 30}).withDefaults(); err != nil ||
		o.CommitBytes != 1<<18 {
		t.Errorf("a commit has %d bytes, %v", o.CommitBytes, err)
	}
}
