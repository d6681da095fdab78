package server

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

// trouble records what is wrong with the store at present: it cannot write, as it says itself, or it does not
// answer, as the engine finds. The log tells when either begins and ends; readiness and the metrics tell
// meanwhile.
type trouble struct {
	log *slog.Logger
	now func() time.Time // the node's clock

	mu     sync.Mutex
	write  fault
	answer fault
	lost   []store.Damage
}

// fault is something that is wrong.
type fault struct {
	err   error // nil: it is not
	since time.Time
	told  bool // its begin is in the log
}

func newTrouble(c *Config) *trouble { return &trouble{log: c.Log, now: c.Now} }

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
	switch {
	case t.write.err != nil:
		return fmt.Errorf("the store has not been able to write since %s: %w", when(t.write.since), t.write.err)
	case t.answer.err != nil:
		return fmt.Errorf("the store has not answered since %s: %w", when(t.answer.since), t.answer.err)
	}
	return nil
}

func when(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Now returns Lasts and Err.
func (t *trouble) Now() (lasts time.Duration, err error) { return t.Lasts(), t.Err() }

// Lasts returns for how long the store has not been able to write; 0 if it can.
func (t *trouble) Lasts() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	var since time.Time
	for _, f := range []fault{t.write, t.answer} {
		if f.err != nil && (since.IsZero() || f.since.Before(since)) {
			since = f.since
		}
	}
	if since.IsZero() {
		return 0
	}
	return max(time.Nanosecond, t.now().Sub(since)) // a clock may be set back
}

func (t *trouble) failed(err error) {
	t.mu.Lock()
	if t.write.err == nil {
		t.write = fault{since: t.now()}
	}
	t.write.err = err
	t.mu.Unlock()
	t.log.Error("the store cannot write", "error", err)
}

func (t *trouble) recovered() {
	t.mu.Lock()
	t.write = fault{}
	t.mu.Unlock()
	t.log.Info("the store writes again")
}

// away records that the store has not answered since an instant. If a write has failed the log has it
// already.
func (t *trouble) away(since time.Time, err error) {
	t.mu.Lock()
	tell := t.write.err == nil
	t.answer = fault{err: err, since: since, told: tell}
	t.mu.Unlock()
	if tell {
		t.log.Error("the store does not answer", "since", when(since), "error", err)
	}
}

// back records that the store answers again.
func (t *trouble) back() {
	t.mu.Lock()
	was := t.answer
	t.answer = fault{}
	t.mu.Unlock()
	if was.told {
		t.log.Info("the store answers again", "away", t.now().Sub(was.since).Round(time.Millisecond))
	}
}
