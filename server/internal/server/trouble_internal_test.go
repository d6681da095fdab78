package server

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/store"
)

func TestAStoreInTroubleIsNotReady(t *testing.T) {
	n := &Node{trouble: &trouble{log: slog.New(slog.DiscardHandler)}}
	events := n.trouble.events()
	events.Failed(errors.New("the disk is full"))
	if err := n.Ready(); err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("ready: %v", err)
	}
	events.Recovered()
	if err := n.trouble.Err(); err != nil {
		t.Errorf("it has recovered: %v", err)
	}
	for range 2 {
		events.Damaged(store.Damage{Part: "7.sst", Partitions: []int{3}, Cause: errors.New("checksum")})
	}
	if n.trouble.DamagedTables() != 1 {
		t.Errorf("one table is counted %d times", n.trouble.DamagedTables())
	}
	if err := n.Ready(); err == nil || !strings.Contains(err.Error(), "7.sst: checksum, partitions [3]") {
		t.Errorf("ready: %v", err)
	}
}
