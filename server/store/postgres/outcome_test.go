package postgres

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	"github.com/carillonhq/carillon/server/store/ordered"
)

func TestOutcome(t *testing.T) {
	said := func(severity, code string) error {
		return fmt.Errorf("wrapped: %w", &pgconn.PgError{SeverityUnlocalized: severity, Code: code})
	}
	for _, c := range []struct {
		err  error
		want store.Outcome
	}{
		{nil, store.Applied},
		{said("ERROR", "22012"), store.Fenced},
		{said("ERROR", "40001"), store.NotApplied}, // serialization
		{said("ERROR", "40P01"), store.NotApplied}, // deadlock
		{said("ERROR", "57014"), store.NotApplied}, // statement timeout
		{said("ERROR", "53100"), store.NotApplied}, // disk full
		{said("ERROR", "40003"), store.Unknown},    // statement completion unknown
		{said("FATAL", "57P01"), store.Unknown},    // the server goes down, perhaps after the commit
		{said("FATAL", "22012"), store.Unknown},
		{said("PANIC", "XX000"), store.Unknown},
		{io.ErrUnexpectedEOF, store.Unknown},
		{errors.Join(said("ERROR", "23514"), errors.New("conn closed")), store.NotApplied},
	} {
		if got := store.OutcomeOf(outcome(c.err)); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
}

// What a pooler that does not keep sessions makes of statements that were prepared says what must be changed.
func TestAPoolerIsNamed(t *testing.T) {
	for _, code := range []string{"42P05", "26000"} {
		err := fmt.Errorf("wrapped: %w", &pgconn.PgError{SeverityUnlocalized: "ERROR", Code: code})
		for _, got := range []error{failed("claim partitions", err), outcome(err)} {
			if !errors.Is(got, errSession) || store.OutcomeOf(got) != store.NotApplied {
				t.Errorf("%s: %v", code, got)
			}
		}
	}
}

func TestPrefixEnd(t *testing.T) {
	for prefix, want := range map[string]string{
		"a": "b", "a/": "a0", "\U0010ffff": "", "a\U0010ffff": "b", "\ud7ff": "\ue000", "": "", "z\x7f": "z\u0080",
	} {
		if got := prefixEnd(prefix); got != want {
			t.Errorf("%q: %q, want %q", prefix, got, want)
		}
	}
	for prefix, want := range map[string]string{"a": "b", "\xff": "", "a\xff\xff": "b", "a\x00": "a\x01"} {
		if got := string(ordered.After([]byte(prefix))); got != want {
			t.Errorf("bytes %q: %q, want %q", prefix, got, want)
		}
	}
}

// TestOnlyWhatMayPassIsRepeated: of a refused claim the next session may be whole by chance, behind a pooler
// that does not keep sessions; a damaged record stays damaged on every connection.
func TestOnlyWhatMayPassIsRepeated(t *testing.T) {
	_, damaged := codec.DecodeState([]byte{0xff})
	for _, refusal := range []error{errSession, ErrReplaced, damaged} {
		if lost(refusal) || broken(refusal) || rolledBack(refusal) {
			t.Errorf("it is tried again: %v", refusal)
		}
	}
}

// What was told last is how it is, however many calls end at once.
func TestEventsAreInOrder(t *testing.T) {
	var mu sync.Mutex
	var told []bool
	tell := func(failed bool) {
		runtime.Gosched() // others go on meanwhile
		mu.Lock()
		defer mu.Unlock()
		told = append(told, failed)
	}
	s := &Store{health: store.Health{Failed: func(error) { tell(true) }, Recovered: func() { tell(false) }}}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5000 {
				s.heed(io.EOF)
				s.heed(nil)
			}
		})
	}
	wg.Wait()
	for i, failed := range told {
		if failed != (i%2 == 0) {
			t.Fatalf("told %d times, and %v the %dth time", len(told), failed, i)
		}
	}
}
