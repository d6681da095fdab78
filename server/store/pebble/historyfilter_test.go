package pebble

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

func runOf(i int, scheduled int64) (store.RunID, []byte) {
	id := store.RunID{UID: store.NewUID(carillon.Key{Namespace: "n", Name: fmt.Sprint(i)}, [8]byte{}),
		Scheduled: scheduled}
	key := appendHistoryKey(nil, 0, &id)
	return id, key
}

// No run that was recorded is told to be new, and most of those that are new are.
func TestHistoryFilterIsNeverWrong(t *testing.T) {
	const runs = 5 * (youngRuns / 64)
	r := newHistoryFilter(64)
	if id, key := runOf(-1, math.MaxInt64); r.add(&id, key) {
		t.Fatal("something is certain before it was looked")
	}
	r.begin(99)
	fresh, random := 0, rand.New(rand.NewPCG(3, 4))
	for i := range runs {
		id, key := runOf(i, int64(100+i/10))
		if r.add(&id, key) {
			fresh++
		}
		old := random.IntN(i + 1)
		if id, key := runOf(old, int64(100+old/10)); r.add(&id, key) {
			t.Fatalf("run %d is told to be new after %d", old, i)
		}
	}
	if id, key := runOf(runs, 99); r.add(&id, key) {
		t.Error("a run from before is told to be new")
	}
	if fresh < runs/10 {
		t.Errorf("only %d of %d new runs are told to be new", fresh, runs)
	}
}

// The latest time there is has no later one: a run of it is old once it was dropped.
func TestHistoryFilterOfTheLatestTime(t *testing.T) {
	r := newHistoryFilter(64)
	r.begin(math.MinInt64)
	for i := range 3 * (youngRuns / 64) {
		id, key := runOf(i, math.MaxInt64)
		r.add(&id, key)
	}
	if id, key := runOf(0, math.MaxInt64); r.add(&id, key) {
		t.Error("a run that was dropped is told to be new")
	}
}
