package postgres_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/postgres"
)

// rowsRead is a step of a plan that reads rows, rowsRemoved how many of them it drops.
var (
	rowsRead    = regexp.MustCompile(`Scan (?:Backward )?using (\w+) on .*\(actual rows=(\d+) loops=(\d+)\)`)
	rowsRemoved = regexp.MustCompile(`Rows Removed by Filter: (\d+)`)
)

// TestListsAreNoScans counts the rows that lists read of 20,000 jobs, as many pending runs and as many finished
// runs, with tables that were never analysed and with such as were, planned for the query and for any: never
// more than are asked for.
func TestListsAreNoScans(t *testing.T) {
	if testing.Short() {
		t.Skip("it is long; go test without -short runs it")
	}
	const jobs, each, page = 20_000, 5000, 100
	server := realserver.StartPostgres(t, append(realserver.Volatile(), "autovacuum=off")...)
	s := open(t, server.Database(t), store.Options{})
	shard, _ := holding(t, s)
	for i := 0; i < jobs; i += each {
		var b store.Batch
		for k := range each {
			j := job(i + k)
			if k%100 == 0 {
				j.State.Phase = carillon.PhaseRetrying
			}
			run := j
			run.Seq, run.Spec, run.State.Due = 1, nil, 0
			r := finished(i+k, carillon.RunSucceeded)
			if k%100 == 0 {
				r.Status = carillon.RunFailed
			}
			b.Puts, b.Runs = append(b.Puts, j, run), append(b.Runs, r)
		}
		if err := shard.Apply(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
	}
	queries := map[string]postgres.Query{}
	namespace, middle := job(0).Namespace, job(jobs/2)
	for _, of := range []string{"", namespace} {
		for _, pending := range []bool{false, true} {
			q := store.ListQuery{Namespace: of, Phase: new(carillon.PhaseRetrying), Pending: pending, Limit: page, MaxSpec: 1024}
			name := fmt.Sprintf("in a phase of %q, pending runs %v", of, pending)
			queries[name] = postgres.List(t, q)
			q.Past(store.Ref{Key: middle.Key, Seq: 1})
			queries[name+", from the middle"] = postgres.List(t, q)
		}
	}
	queries["pending runs of a job"] = postgres.List(t, store.ListQuery{PendingOf: &middle.Key, Limit: page})
	for _, status := range []carillon.RunStatus{carillon.RunSucceeded, carillon.RunFailed} {
		q := store.RunQuery{Namespace: namespace, Status: &status, Limit: page}
		after := finished(jobs/2, status)
		queries["ended "+status.String()] = postgres.Ended(q, nil)
		queries["ended "+status.String()+", from the middle"] = postgres.Ended(q, &after)
		q.Since, q.Until = jobs/3, jobs/2
		queries["ended "+status.String()+" between times"] = postgres.Ended(q, nil)
	}
	for _, analysed := range []bool{false, true} {
		if analysed {
			s.Analyze(t)
		}
		for name, q := range queries {
			wantNoScan(t, fmt.Sprintf("%s, analysed %v", name, analysed), s.Explain(t, q), page)
			wantNoScan(t, fmt.Sprintf("%s, for any, analysed %v", name, analysed), s.ExplainAny(t, q), page)
		}
	}
}

// wantNoScan checks that each step of a plan reads no more than a page.
func wantNoScan(t *testing.T, what, plan string, page int) {
	t.Helper()
	bad := strings.Contains(plan, "Seq Scan on carillon") || strings.Contains(plan, "Bitmap")
	steps := rowsRead.FindAllStringSubmatch(plan, -1)
	for _, m := range steps {
		n, err := strconv.Atoi(m[2])
		bad = bad || err != nil || n > page || m[3] != "1"
	}
	for _, m := range rowsRemoved.FindAllStringSubmatch(plan, -1) {
		n, err := strconv.Atoi(m[1])
		bad = bad || err != nil || n > 1 // the one that it goes on after
	}
	if bad || len(steps) == 0 {
		t.Errorf("%s reads more than a page:\n%s", what, plan)
	}
}
