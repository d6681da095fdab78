package storetest_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
	"github.com/carillonhq/carillon/server/store/storetest"
)

// recorder is a testing.TB that remembers whether it failed instead of failing the test that it stands in
// for.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	failures []string
}

func (r *recorder) fail(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, text)
}

func (r *recorder) Error(args ...any)                 { r.fail(fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.fail(fmt.Sprintf(format, args...)) }
func (r *recorder) Fail()                             { r.fail("failed") }

func (r *recorder) FailNow() {
	r.Fail()
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) {
	r.Error(args...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.failures) > 0
}

// watch runs a case and says how it failed; nothing if it passed. A panic of the store is a failure too.
func watch(t *testing.T, c storetest.Case, o storetest.Options) []string {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				r.fail(fmt.Sprint("panic: ", p))
			}
		}()
		c.Check(r, o)
	}()
	<-done
	return r.failures
}

// caseNamed finds a case.
func caseNamed(t *testing.T, name string) storetest.Case {
	t.Helper()
	for _, c := range storetest.Cases() {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("there is no case %q", name)
	return storetest.Case{}
}

// broken is a store with one fault, and the case that must catch it.
type broken struct {
	fault    string
	caughtBy string
	build    func(m *memory.Store) faults
	// reopen opens the store again; nil = as it was, which is what a durable store would do.
	reopen func(s store.Store) store.Store
}

// options are those of a store with a fault; with none, of a store that only looks durable, because its
// memory stays.
func (b broken) options() storetest.Options {
	var clock testClock
	reopen := func(_ testing.TB, s store.Store) store.Store {
		if b.reopen != nil {
			return b.reopen(s)
		}
		if f, ok := s.(*faultyStore); ok {
			return f.reopened()
		}
		return s
	}
	return storetest.Options{
		Open: func(testing.TB) store.Store {
			m := memory.New(memory.Options{Partitions: 16, Now: clock.Now})
			if b.build == nil {
				return m
			}
			return &faultyStore{Store: m, faults: b.build(m)}
		},
		Reopen: reopen, Crash: reopen,
		Advance: func(_ testing.TB, _ store.Store, d time.Duration) { clock.Advance(d) },
		Seeds:   5,
	}
}

// A store without a fault passes every case, under the same recorder and through the same wrapper as the
// broken ones.
func TestFaultlessStore(t *testing.T) {
	faultless := broken{build: func(*memory.Store) faults { return faults{} }}
	for _, c := range storetest.Cases() {
		if failures := watch(t, c, faultless.options()); len(failures) > 0 {
			t.Errorf("%s: %s", c.Name, failures[0])
		}
	}
}

// Every broken store fails the case that is about its fault.
func TestBrokenStores(t *testing.T) {
	for _, list := range [][]broken{brokenWrites, brokenQueries, brokenHistories, brokenLists, brokenOwnership,
		brokenGroups, brokenSubmits, brokenDurability} {
		for _, b := range list {
			t.Run(b.fault, func(t *testing.T) {
				failures := watch(t, caseNamed(t, b.caughtBy), b.options())
				if len(failures) == 0 {
					t.Fatalf("a store that %s passes %q", b.fault, b.caughtBy)
				}
				t.Logf("caught: %.300s", failures[0])
			})
		}
	}
}

// Every case has a name of its own.
func TestCaseNames(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range storetest.Cases() {
		if seen[c.Name] {
			t.Errorf("two cases are called %q", c.Name)
		}
		seen[c.Name] = true
	}
}

// The random case, which knows nothing of any fault, notices most of those of queries and histories by
// itself.
func TestRandomCaseNotices(t *testing.T) {
	random := caseNamed(t, "random/behaves like the model")
	noticed, faults := 0, slices.Concat(brokenQueries, brokenHistories, brokenLists)
	for _, b := range faults {
		if len(watch(t, random, b.options())) > 0 {
			noticed++
		} else {
			t.Logf("the random case does not notice a store that %s", b.fault)
		}
	}
	if noticed < len(faults)*3/4 {
		t.Errorf("the random case notices only %d of %d faults", noticed, len(faults))
	}
}

// testClock is a clock that goes on when told.
type testClock struct {
	mu   sync.Mutex
	gone time.Duration
}

func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC).Add(c.gone)
}

func (c *testClock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone += d
}
