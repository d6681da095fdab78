package contents

import (
	"math"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// CountJobs counts the jobs.
func (p *Partition) CountJobs() (n int) {
	p.records.byRef.Scan(func(r *store.Record) bool {
		if r.Seq == 0 {
			n++
		}
		return true
	})
	return n
}

// Count counts what operators watch.
func (p *Partition) Count() store.Counts {
	out := store.NewCounts()
	p.records.byPhase.Scan(func(r *store.Record) bool {
		if r.Seq == 0 {
			out.Phases[r.State.Phase]++
		}
		return true
	})
	p.records.staged.Scan(func(r *store.Record) bool {
		out.AddStaged(r.State.Queue, 1, r.State.Run.Due)
		return true
	})
	first := &store.RunRecord{Status: carillon.RunDead, Finished: math.MaxInt64}
	p.history.byStatus.Ascend(first, func(r *store.RunRecord) bool {
		if r.Status == carillon.RunDead {
			out.Dead[r.Key.Namespace]++
		}
		return r.Status == carillon.RunDead
	})
	return out
}
