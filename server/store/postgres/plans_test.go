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

// finished is a run of a job.
func finished(i int, status carillon.RunStatus) store.RunRecord {
	of := job(i)
	return store.RunRecord{Key: of.Key, ID: store.RunID{Partition: 3, UID: of.State.UID, Scheduled: int64(i)},
		Status: status, Finished: int64(i), Expires: int64(i) + 1, Attempt: 1}
}

// TestPlansOfWrites asks the server how it would do all that a batch can hold, with tables that were never
// analysed: nothing reads more of a table than it changes.
func TestPlansOfWrites(t *testing.T) {
	const jobs, each = 20_000, 5000
	server := realserver.StartPostgres(t, append(realserver.Volatile(), "autovacuum=off")...)
	s := open(t, server.Database(t), store.Options{})
	shard, _ := holding(t, s)
	for i := 0; i < jobs; i += each {
		var b store.Batch
		for k := range each {
			status := carillon.RunSucceeded
			if k%100 == 0 {
				status = carillon.RunDead
			}
			b.Puts, b.Runs = append(b.Puts, job(i+k)), append(b.Runs, finished(i+k, status))
			b.MetaRecords = append(b.MetaRecords,
				store.MetaRecord{Kind: 1, Key: fmt.Sprint(i + k), Value: []byte("v")})
		}
		if err := shard.Apply(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
	}
	state := job(2)
	state.Spec = nil
	dead := finished(0, carillon.RunDead)
	plans := s.ExplainWrites(t, shard, &store.Batch{
		Deletes: []store.Ref{job(0).Ref, {Key: job(1).Key, Seq: 7}}, Puts: []store.Record{state, job(jobs)},
		Redrive:     []store.RunRef{{Key: dead.Key, ID: dead.ID}},
		Runs:        []store.RunRecord{finished(3, carillon.RunFailed)},
		Trims:       []store.Trim{{Key: job(4).Key, Keep: 0}},
		Expire:      &store.Expire{Before: 200, Most: jobs, Limit: 100},
		MetaRecords: []store.MetaRecord{{Kind: 1, Key: "5"}, {Kind: 1, Key: "6", Value: []byte("w")}},
	})
	for _, plan := range plans {
		t.Log(plan)
		if strings.Contains(plan, "Seq Scan on carillon") || strings.Contains(plan, "Bitmap") ||
			strings.Contains(plan, "carillon_runs_ended on") {
			t.Errorf("it reads a whole table:\n%s", plan)
		}
	}
}

// TestTheFirstOfEachNamespaceIsNoScan counts the rows that are read of 20,000 jobs in 3 namespaces, with tables
// that were never analysed, and with such as were.
func TestTheFirstOfEachNamespaceIsNoScan(t *testing.T) {
	const jobs, each = 20_000, 5000
	server := realserver.StartPostgres(t, append(realserver.Volatile(), "autovacuum=off")...)
	s := open(t, server.Database(t), store.Options{})
	shard, _ := holding(t, s)
	for i := 0; i < jobs; i += each {
		var b store.Batch
		for k := range each {
			j := job(i + k)
			j.Namespace = fmt.Sprint("tenant-", (i+k)%3)
			b.Puts = append(b.Puts, j)
		}
		if err := shard.Apply(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
	}
	rows := regexp.MustCompile(`Scan using carillon_jobs_pkey on carillon_jobs .*\(actual rows=(\d+) loops=(\d+)\)`)
	for _, analysed := range []bool{false, true} {
		if analysed {
			s.Analyze(t)
		}
		for after, most := range map[string]int{"": 4, "tenant-0": 3, "tenant-2": 1} { // a step for each, and one at the end
			plan := s.Explain(t, postgres.Firsts(after))
			t.Log(plan)
			steps := 0
			for _, m := range rows.FindAllStringSubmatch(plan, -1) {
				n, err := strconv.Atoi(m[1])
				loops, bad := strconv.Atoi(m[2])
				if err != nil || bad != nil {
					t.Fatal(err, bad)
				}
				if steps += loops; n > 1 {
					t.Errorf("a step reads %d jobs", n)
				}
			}
			if steps == 0 || steps > most || strings.Contains(plan, "Sort Key: carillon_jobs") || strings.Contains(plan, "Removed by Filter") ||
				strings.Contains(plan, "Seq Scan on carillon") || strings.Contains(plan, "Bitmap") {
				t.Errorf("after %q it takes %d steps:\n%s", after, steps, plan)
			}
		}
	}
}
