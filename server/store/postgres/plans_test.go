package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store"
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
			strings.Contains(plan, "carillon_runs_dead on") {
			t.Errorf("it reads a whole table:\n%s", plan)
		}
	}
}
