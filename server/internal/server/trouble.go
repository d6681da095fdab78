package server

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

// trouble records why the store cannot write at present, for the log and for readiness.
type trouble struct {
	log *slog.Logger

	mu    sync.Mutex
	err   error
	since time.Time
	lost  []store.Damage
}

// events returns the events of the store that is watched.
func (t *trouble) events() store.Events {
	return store.Events{Failed: t.failed, Recovered: t.recovered, Damaged: t.damaged}
}

// Damage returns what the store was found to have lost since the node started; nil if nothing.
func (t *trouble) Damage() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lost) == 0 {
		return nil
	}
	d := t.lost[0]
	return fmt.Errorf("the store is damaged, what is left is served: %s: %w, partitions %v; "+
		"stop the node, look with carillon store check, and restore a backup", d.Part, d.Cause, d.Partitions)
}

// DamagedTables returns how many tables are damaged.
func (t *trouble) DamagedTables() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.lost)
}

func (t *trouble) damaged(d store.Damage) {
	t.mu.Lock()
	known := slices.ContainsFunc(t.lost, func(old store.Damage) bool { return old.Part == d.Part })
	if !known {
		t.lost = append(t.lost, d)
	}
	t.mu.Unlock()
	if !known {
		t.log.Error("a table of the store is damaged: what stands in it is lost, what is left is served; carillon store check names it",
			"table", d.Part, "partitions", d.Partitions, "error", d.Cause)
	}
}

// Err returns why the store cannot write; nil if it can.
func (t *trouble) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		return nil
	}
	return fmt.Errorf("the store has not been able to write since %s: %w",
		t.since.UTC().Format(time.RFC3339), t.err)
}

func (t *trouble) set(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.since = time.Now()
	}
	t.err = err
}

func (t *trouble) failed(err error) {
	t.set(err)
	t.log.Error("the store cannot write", "error", err)
}

func (t *trouble) recovered() {
	t.set(nil)
	t.log.Info("the store writes again")
}
