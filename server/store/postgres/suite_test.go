package postgres_test

import (
	"sync"
	"testing"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/postgres"
	"github.com/carillonhq/carillon/server/store/storetest"
)

// open opens a store that the test closes.
func open(t testing.TB, url string, o store.Options) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestSuite runs the suite on a server; every store has a database of its own, which a store that is opened
// again finds.
func TestSuite(t *testing.T) {
	server := realserver.StartPostgres(t, realserver.Volatile()...)
	var mu sync.Mutex
	urls := map[store.Store]string{}
	at := func(t testing.TB, url string) store.Store {
		s := open(t, url, store.Options{})
		mu.Lock()
		defer mu.Unlock()
		urls[s] = url
		return s
	}
	again := func(t testing.TB, s store.Store) store.Store {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		mu.Lock()
		url := urls[s]
		mu.Unlock()
		return at(t, url)
	}
	o := storetest.Options{
		Open:   func(t testing.TB) store.Store { return at(t, server.Database(t)) },
		Reopen: again,
		Seeds:  5,
	}
	if testing.Short() {
		o.Seeds = 1
	}
	storetest.RunOptions(t, o)
}
