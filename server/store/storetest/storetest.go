package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

// Options say how the suite gets at a store. Only Open is needed.
type Options struct {
	// Open makes an empty store; it registers with t whatever ends it. The suite does not close it.
	Open func(t testing.TB) store.Store
	// Reopen closes the store and opens what it left behind. nil: the store is not durable.
	Reopen func(t testing.TB, s store.Store) store.Store
	// Crash ends the store as kill -9 or a power cut does, and opens what it left behind: only what was
	// acknowledged may be there for certain. nil: left out.
	Crash func(t testing.TB, s store.Store) store.Store
	// Advance lets the store's clock go on by d. nil: the suite takes short leases and waits for their end.
	Advance func(t testing.TB, s store.Store, d time.Duration)
	// Alone: only one node at a time can have the store, which so needs no proving ground.
	Alone bool
	// Seeds is how many random histories are played against the model; default 20.
	Seeds int
	// Rounds is how often a race for a lease is repeated; default 1000.
	Rounds int
	// Steps is how many batches a random history has; default 120.
	Steps int
}

// Case is a sentence of the contract.
type Case struct {
	Name  string
	check func(e *env)
	needs func(o Options) bool // nil: nothing but Open
}

// Run checks a store that does not outlive its process.
func Run(t *testing.T, open func(t testing.TB) store.Store) {
	t.Helper()
	RunOptions(t, Options{Open: open})
}

// RunOptions checks a store. Cases about what outlives the process are left out if the options do not say
// how.
func RunOptions(t *testing.T, o Options) {
	t.Helper()
	for _, c := range Cases() {
		if c.Applies(o) {
			t.Run(c.Name, func(t *testing.T) { c.Check(t, o) })
		}
	}
}

// Cases is the whole suite.
func Cases() []Case {
	return slices.Concat(batchCases, dueCases, stagedCases, liveCases, listCases, phaseCases, runCases,
		endedCases, retentionCases, metaCases, fenceCases, groupCases, submitCases, readCases, gatherCases,
		countCases, leaserCases, memberCases, concurrentCases, randomCases, durableCases)
}

// Applies reports whether the options have all that the case needs.
func (c Case) Applies(o Options) bool { return c.needs == nil || c.needs(o) }

// Check runs the case on a store of its own.
func (c Case) Check(t testing.TB, o Options) {
	t.Helper()
	c.check(newEnv(t, o))
}
