package partition

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

// TestUsageCountsWhileJobsChange: whatever is put, changed and deleted while the jobs are counted, and whether a
// page of the store has it or not, the count is what is there in the end.
func TestUsageCountsWhileJobsChange(t *testing.T) {
	const namespace, pageSize = "n", 3
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 2))
		there := map[string]int64{} // what memory has
		for i := range 20 {
			if random.IntN(2) == 0 {
				there[fmt.Sprintf("j%02d", i)] = random.Int64N(100)
			}
		}
		us := &Usage{cfg: new(Config{}.withDefaults()), all: map[string]*usage{}}
		us.Of(0, namespace)
		for after, ok := us.Uncounted(namespace); ok; after, ok = us.Uncounted(namespace) {
			page := pageBehind(there, after, pageSize)
			for range random.IntN(6) { // changes that the page does not have
				name, from := fmt.Sprintf("j%02d", random.IntN(20)), int64(none)
				if payload, is := there[name]; is {
					from = payload
				}
				to := random.Int64N(101) - 1
				us.moved(carillon.Key{Namespace: namespace, Name: name}, from, to)
				if there[name] = to; to == none {
					delete(there, name)
				}
			}
			us.Count(namespace, after, page, len(page) < pageSize)
			us.Count(namespace, after, page, len(page) < pageSize) // twice
		}
		var want message.Amount
		for _, payload := range there {
			want = want.Plus(message.Amount{Jobs: 1, Bytes: payload})
		}
		if got := us.Of(0, namespace); !got.Counted || got.Used != want {
			t.Fatalf("seed %d: counted %+v, want %+v", seed, got, want)
		}
	}
}

// pageBehind returns what the store has of the jobs behind a name.
func pageBehind(there map[string]int64, after string, size int) (page []store.Record) {
	var names []string
	for name := range there {
		if name > after {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names[:min(size, len(names))] {
		page = append(page, store.Record{Ref: store.Ref{Key: carillon.Key{Namespace: "n", Name: name}},
			State: store.State{Payload: there[name]}})
	}
	return page
}

// TestALateQuestionBringsNoQuotasBack: where there are no quotas, jobs are put without room, whenever the home
// asked what there is; and soon after it took the room back, as it knew of quotas of which the node did not.
func TestALateQuestionBringsNoQuotasBack(t *testing.T) {
	const namespace = "n"
	quotas := carillon.Quotas{Jobs: 1}
	cfg := Config{Settings: func(string) *carillon.Namespace {
		return &carillon.Namespace{Name: namespace, Quotas: quotas}
	}}.withDefaults()
	us := &Usage{cfg: &cfg, all: map[string]*usage{}}
	limited := func(now time.Duration, want bool, when string) {
		t.Helper()
		if is := us.limited(int64(now), namespace) != nil; is != want {
			t.Errorf("%s: it is held to its room: %v", when, is)
		}
	}
	limited(0, true, "with quotas")
	quotas = carillon.Quotas{}
	us.Changed(namespace)
	limited(0, false, "without")
	us.Of(0, namespace)
	limited(0, false, "after it was counted")
	if us.Recall(0, namespace, message.Stamp{Epoch: 1, N: 1}); us.all[namespace] == nil {
		t.Fatal("it is not counted")
	}
	limited(forcedFor-1, true, "after its room was taken back")
	us.Of(int64(forcedFor-1), namespace) // as who asks for room does
	limited(forcedFor, false, "long after that")
	limited(2*forcedFor, false, "longer after that")
	if len(us.all) != 0 {
		t.Error("it is counted for ever")
	}
	us.Recall(int64(3*forcedFor), namespace, message.Stamp{Epoch: 1, N: 2})
	us.Changed(namespace)
	limited(3*forcedFor, false, "after the node heard of settings")
	us.Recall(int64(3*forcedFor), namespace, message.Stamp{Epoch: 1, N: 3})
	quotas = carillon.Quotas{Jobs: 1}
	limited(10*forcedFor, true, "after it heard of quotas")
}
