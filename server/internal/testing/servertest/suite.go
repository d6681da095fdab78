// Package servertest is what the tests of stores on servers have in common.
//
//	suite.go   the suite of package storetest on a server
//	faults.go  owners of partitions whose server fails
//	bench.go   what owners write, measured
package servertest

import (
	"context"
	"sync"
	"testing"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/storetest"
)

// Server is a server that tests end and start again.
type Server interface {
	Crash(t testing.TB)
	Up(t testing.TB)
}

// Kind is a kind of stores. O is how one is opened.
type Kind[O any] struct {
	Open func(ctx context.Context, o O) (store.Store, error)
	// Fresh makes options of a store that is not there yet.
	Fresh func(t testing.TB) O
}

// Opened opens a store that the test closes.
func Opened[O any, S store.Store](t testing.TB, o O, open func(ctx context.Context, o O) (S, error)) S {
	t.Helper()
	s, err := open(t.Context(), o)
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

// Suite are the suite's hooks on some servers, which are the test's. A crash kills all of them.
func Suite[O any, V Server](whole *testing.T, k Kind[O], servers ...V) storetest.Options {
	var mu sync.Mutex
	where := map[store.Store]O{} // so that they can be opened again
	open := func(t testing.TB, o O) store.Store {
		t.Helper()
		s := Opened(t, o, k.Open)
		mu.Lock()
		defer mu.Unlock()
		where[s] = o
		return s
	}
	closed := func(t testing.TB, s store.Store) O {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		return where[s]
	}
	return storetest.Options{
		Open:   func(t testing.TB) store.Store { return open(t, k.Fresh(t)) },
		Reopen: func(t testing.TB, s store.Store) store.Store { return open(t, closed(t, s)) },
		Crash: func(t testing.TB, s store.Store) store.Store {
			o := closed(t, s)
			for _, v := range servers {
				v.Crash(t)
			}
			for _, v := range servers {
				v.Up(whole) // it stays for the cases to come
			}
			return open(t, o)
		},
	}
}

// As returns open as that of a [Kind].
func As[O any, S store.Store](open func(ctx context.Context, o O) (S, error)) func(context.Context,
	O) (store.Store, error) {
	return func(ctx context.Context, o O) (store.Store, error) {
		s, err := open(ctx, o)
		if err != nil {
			return nil, err // not s, which would be a nil pointer in an interface
		}
		return s, nil
	}
}
