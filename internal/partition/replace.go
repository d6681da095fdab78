package partition

import "github.com/carillonhq/carillon"

// replaceJob puts a job in place of e as if e had been deleted first, in one batch. The record stays, and
// everything in it becomes the new job's. Only the number of the last pending run and the count of history
// records go on, because both belong to the name.
func (m *Machine) replaceJob(now int64, e *entry, req *PutRequest) (carillon.PutResult, error) {
	if int(e.state.Pending) > int(e.children) {
		return carillon.PutResult{}, carillon.Errorf(carillon.FailedPrecondition, "name",
			"job %q has unfinished runs that are older than the %d triggers that are looked through for them: delete it first", e.ref.Name, SearchAll)
	}
	d, err := m.draft(now, req)
	if err != nil {
		return carillon.PutResult{}, err
	}
	m.cancelRuns(e, now, ReasonReplaced)
	m.unlist(e) // while the old state still says where it is filed
	d.state.Triggers, d.state.Kept = e.state.Triggers, e.state.Kept
	m.window.bytes -= len(d.spec) // draft counted the spec, and setSpec counts it again
	m.setSpec(e, d.spec)
	e.state, e.fresh, e.later, e.content = d.state, true, 0, m.out.seq
	return m.created(e, req.Job), nil
}
