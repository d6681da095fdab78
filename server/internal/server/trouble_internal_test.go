package server

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

func TestAStoreInTroubleIsNotReady(t *testing.T) {
	n := &Node{trouble: &trouble{log: slog.New(slog.DiscardHandler), now: time.Now}}
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

// TestAStoreThatIsAwayIsSaidOnce: it does not answer, and then its writes fail as well, or the other way round.
func TestAStoreThatIsAwayIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		tr := &trouble{log: slog.New(slog.NewTextHandler(&text, nil)), now: time.Now}
		since := time.Now()
		<-time.After(3 * time.Second)
		tr.away(since, errors.New("no route to host"))
		if err := tr.Err(); err == nil || !strings.Contains(err.Error(),
			"has not answered since "+since.UTC().Format(time.RFC3339)+": no route to host") {
			t.Errorf("why: %v", err)
		}
		tr.failed(errors.New("broken pipe"))
		if lasts := tr.Lasts(); lasts != 3*time.Second {
			t.Errorf("it lasts %v", lasts)
		}
		tr.recovered()
		if tr.Err() == nil {
			t.Error("it does not answer, and that is no trouble")
		}
		tr.back()
		if lasts, err := tr.Now(); lasts != 0 || err != nil {
			t.Errorf("it is back, for %v: %v", lasts, err)
		}
		tr.failed(errors.New("broken pipe"))
		tr.away(time.Now(), errors.New("no route to host"))
		tr.back()
		tr.recovered()
		for line, n := range map[string]int{"the store does not answer": 1, "the store answers again": 1,
			"away=3s": 1, "the store cannot write": 2, "the store writes again": 2} {
			if got := strings.Count(text.String(), line); got != n {
				t.Errorf("%q is said %d times, want %d:\n%s", line, got, n, &text)
			}
		}
	})
}
