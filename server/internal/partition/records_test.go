package partition

import (
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// TestWhatARecordNeeds is asked for by name: the job of a pending run, and the spec that it runs by.
func TestWhatARecordNeeds(t *testing.T) {
	job := store.Ref{Key: carillon.Key{Namespace: "n", Name: "j"}}
	run := store.Ref{Key: job.Key, Seq: 3}
	with, without := &entry{ref: job, spec: []byte{1}}, &entry{ref: job}
	for _, c := range []struct {
		name string
		e    entry
		want *store.Ref // nil: nothing
	}{
		{"a job", entry{ref: job}, &job},
		{"a job with its spec", *with, nil},
		{"a run without its job", entry{ref: run}, &job},
		{"a run whose job has no spec", entry{ref: run, parent: without}, &job},
		{"a run whose job has its spec", entry{ref: run, parent: with}, nil},
		{"a redriven run", entry{ref: run, parent: with, state: store.State{OwnSpec: true}}, &run},
	} {
		t.Run(c.name, func(t *testing.T) {
			rs := newRecords(&Config{}, &builder{})
			if rs.complete(&c.e) != (c.want == nil) || len(rs.needs) > 1 {
				t.Errorf("complete: %v, it needs %v", c.want != nil, rs.needs)
			}
			if _, asked := rs.needs[run]; c.want == &run && !asked {
				t.Error("the run's own record is not asked for")
			}
			if _, asked := rs.needs[job]; c.want == &job && !asked {
				t.Error("the job's record is not asked for")
			}
		})
	}
}
