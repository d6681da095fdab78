package engine_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store/memory"
)

// allNamespaces reads pages of a size until the last one, each from the next node.
func allNamespaces(t *testing.T, size int, nodes ...*node) (all []carillon.Namespace) {
	t.Helper()
	q := carillon.NamespaceQuery{PageSize: size}
	for i := 0; i == 0 || q.PageToken != ""; i++ {
		page, err := nodes[i%len(nodes)].ListNamespaces(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Namespaces) > size {
			t.Errorf("a page of %d has %d", size, len(page.Namespaces))
		}
		all, q.PageToken = append(all, page.Namespaces...), page.NextPageToken
	}
	return all
}

// TestNamespacesOfAllNodes: any node shows the namespaces of all partitions with the settings that GetNamespace
// shows, in pages of any size, also while a node is away and nobody owns its partitions.
func TestNamespacesOfAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, memory.New(memory.Options{Partitions: 8}), 3, nil)
		f.deal(func(p int) int { return p % 3 })
		f.settled()
		var want []carillon.Namespace
		put := func(ns carillon.Namespace) {
			_, err := route(t.Context(), f,
				func(n *node) (carillon.Namespace, error) { return n.PutNamespace(t.Context(), ns) })
			if err != nil {
				t.Fatal(err)
			}
		}
		for i := range 12 {
			name := fmt.Sprintf("n%02d", i)
			for k := range 9 * (i % 2) {
				j := carillon.Job{Namespace: name, Name: fmt.Sprint(k), Due: carillon.In(time.Hour),
					Target: carillon.WorkerQueue("q")}
				if _, err := route(t.Context(), f, func(n *node) (carillon.PutResult, error) {
					return n.PutJob(t.Context(), j)
				}); err != nil {
					t.Fatal(err)
				}
			}
			if i%3 == 0 || i == 4 {
				put(carillon.Namespace{Name: name, Strict: true, ConcurrencyLimits: map[string]int{"k": i}})
			}
			if i == 4 { // which has no settings any more, and no jobs
				put(carillon.Namespace{Name: name, Generation: 2})
			}
			if i%2 == 0 && i%3 != 0 {
				continue
			}
			ns, err := route(t.Context(), f,
				func(n *node) (carillon.Namespace, error) { return n.GetNamespace(t.Context(), name) })
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, ns)
		}
		check := func(nodes ...*node) {
			t.Helper()
			for _, size := range []int{1, 2, 3, 8, 100} {
				if got := allNamespaces(t, size, nodes...); !reflect.DeepEqual(got, want) {
					t.Errorf("pages of %d:\n%+v, want\n%+v", size, got, want)
				}
			}
		}
		check(f.nodes...)
		f.nodes[0].stop()
		check(f.nodes[1:]...)
		jobs, err := f.nodes[1].ListJobs(t.Context(), carillon.JobQuery{Namespace: "n01"})
		if err != nil || len(jobs.Jobs) != 9 {
			t.Errorf("jobs: %d, %v", len(jobs.Jobs), err)
		}
		f.nodes[1].stop()
		f.nodes[2].stop()
	})
}

// TestANamespaceIsListedWhileItHoldsAnything: as long as there is a job or a pending run, and not for its
// finished runs.
func TestANamespaceIsListedWhileItHoldsAnything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New(memory.Options{Partitions: 4}))
		key := carillon.Key{Namespace: carillon.DefaultNamespace, Name: "once"}
		listed := func() bool { return len(allNamespaces(t, 10, n)) == 1 }
		if listed() {
			t.Error("nothing is there")
		}
		if _, err := n.PutJob(t.Context(), carillon.Job{Name: key.Name, Due: carillon.In(time.Minute),
			Target: carillon.WorkerQueue("q"), History: carillon.History{Keep: 24 * time.Hour}}); err != nil {
			t.Fatal(err)
		}
		run, err := n.TriggerJob(t.Context(), key)
		if err != nil || !listed() {
			t.Fatal("a job is there", err)
		}
		time.Sleep(2 * time.Minute)
		if !listed() {
			t.Error("runs wait")
		}
		n.consume("q", 5, func(carillon.Run) *carillon.Result {
			return &carillon.Result{Outcome: carillon.OutcomeSuccess}
		})
		time.Sleep(time.Minute)
		if _, err := n.GetJob(t.Context(), key); !errors.Is(err, carillon.NotFound) {
			t.Errorf("the job: %v", err)
		}
		if _, err := n.GetRun(t.Context(), key.Namespace, run.ID); err != nil {
			t.Errorf("the finished run: %v", err)
		}
		if listed() {
			t.Error("finished runs alone are there")
		}
		n.stop()
	})
}

// TestAListOfNamespacesIsBoundedInBytes: settings that do not fit into one message come in pages.
func TestAListOfNamespacesIsBoundedInBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New(memory.Options{Partitions: 4}))
		limits := map[string]int{}
		for i := range 8000 {
			limits[fmt.Sprintf("%0200d", i)] = i
		}
		for i := range 5 {
			if _, err := n.PutNamespace(t.Context(),
				carillon.Namespace{Name: fmt.Sprint("n", i), ConcurrencyLimits: limits}); err != nil {
				t.Fatal(err)
			}
		}
		page, err := n.ListNamespaces(t.Context(), carillon.NamespaceQuery{})
		if err != nil || len(page.Namespaces) != 1 || page.NextPageToken == "" {
			t.Errorf("the first page has %d: %v", len(page.Namespaces), err)
		}
		if all := allNamespaces(t, 100, n); len(all) != 5 {
			t.Errorf("%d of 5", len(all))
		}
		n.stop()
	})
}
