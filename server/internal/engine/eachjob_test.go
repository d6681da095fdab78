package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store/memory"
)

// TestEachJobFindsWhatListsFind: the jobs of one namespace, or of all, once each, with their data whatever
// their length, over as many pages as there are.
func TestEachJobFindsWhatListsFind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		n := start(t, memory.New(memory.Options{Partitions: 2}))
		want := map[string]map[string]int{"a": {}, "a-b": {}, "c": {}} // namespace, name: length of the data
		for namespace, jobs := range want {
			for i := range 1500 {
				name := fmt.Sprintf("%c/%04d", 'x'+i%2, i)
				jobs[name] = i % 700 * 20
				if _, err := n.PutJob(ctx, carillon.Job{Namespace: namespace, Name: name, Due: carillon.In(time.Hour),
					Target: carillon.WorkerQueue("q"), Data: carillon.Bytes(make([]byte, jobs[name]), "")}); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, q := range [...]struct{ namespace, prefix string }{{"", ""}, {"", "y/"}, {"a", "x/"}, {"a", ""},
			{"nobody", ""}, {"", "z"}} {
			expect, got := map[string]int{}, map[string]int{}
			for namespace, jobs := range want {
				for name, length := range jobs {
					if (q.namespace == "" || q.namespace == namespace) && name[:min(len(q.prefix), len(name))] == q.prefix {
						expect[namespace+" "+name] = length
					}
				}
			}
			err := n.EachJob(ctx, q.namespace, q.prefix, func(j *carillon.Job) error {
				key := j.Namespace + " " + j.Name
				if _, twice := got[key]; twice {
					t.Errorf("%q: %s came twice", q, key)
				}
				got[key] = len(j.Data.Bytes)
				return nil
			})
			if err != nil || !maps.Equal(got, expect) {
				t.Errorf("%q: %d jobs, want %d: %v", q, len(got), len(expect), err)
			}
		}
		stop, calls := errors.New("enough"), 0
		err := n.EachJob(ctx, "", "", func(*carillon.Job) error { calls++; return stop })
		if !errors.Is(err, stop) || calls > 2 { // one for each partition at most
			t.Errorf("%d calls after the first had failed: %v", calls, err)
		}
		n.stop()
	})
}

// TestEachJobLeavesOutWhatIsDeleted: a job whose spec is read by itself may be gone by then.
func TestEachJobLeavesOutWhatIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		n := start(t, memory.New(memory.Options{Partitions: 1}))
		for i := range 9 {
			if _, err := n.PutJob(ctx, carillon.Job{Name: fmt.Sprint(i), Due: carillon.In(time.Hour),
				Target: carillon.WorkerQueue("q"), Data: carillon.Bytes(make([]byte, 100<<10), "")}); err != nil {
				t.Fatal(err)
			}
		}
		var names []string
		err := n.EachJob(ctx, "", "", func(j *carillon.Job) error {
			names = append(names, j.Name)
			if j.Name == "2" {
				_, err := n.DeleteJobs(ctx, "", "5")
				return err
			}
			return nil
		})
		if want := []string{"0", "1", "2", "3", "4", "6", "7", "8"}; err != nil || !slices.Equal(names, want) {
			t.Errorf("%q, want %q: %v", names, want, err)
		}
		n.stop()
	})
}
