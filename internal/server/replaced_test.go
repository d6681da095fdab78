package server_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/server"
	"github.com/carillonhq/carillon/internal/testing/realserver"
	"github.com/carillonhq/carillon/store/postgres"
)

// buffer is a log that may be read while it is written.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// count is how often the log has a text.
func (b *buffer) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.text.String(), text)
}

// TestANodeWhoseStoreWasReplacedLeaves at once, however much grace it has: it has no terms, and waits for
// none. Until then it has said once that another store is in the place of its own.
func TestANodeWhoseStoreWasReplacedLeaves(t *testing.T) {
	database := realserver.StartPostgres(t, realserver.Volatile()...)
	url := database.Database(t)
	var log buffer
	a, end := serveFailing(t, server.Config{Store: url, Name: "a", Partitions: 4, LeaseTTL: 2 * time.Second, DrainGrace: time.Hour,
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	eventually(t, "a owns everything", func() bool { return a.Ready() == nil })
	database.Exec(t, "test_1", "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
	eventually(t, "the terms are over", func() bool { return log.count("lost their terms") > 0 })
	other, err := postgres.Open(t.Context(), url, postgres.Options{Partitions: 8})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the node has met it more than once", func() bool { return log.count(postgres.ErrReplaced.Error()) > 3 })
	if err := end(); err != nil {
		t.Error(err)
	}
	said := func(what string) int {
		return log.count(`msg="the store cannot write" error="store: ` + what + ": " + postgres.ErrReplaced.Error())
	}
	if n := said("join") + said("claim partitions"); n != 1 {
		t.Errorf("it said so %d times", n)
	}
}
