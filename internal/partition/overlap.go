package partition

import "github.com/carillonhq/carillon"

// afterRun decides what becomes of the scheduled times that came while the job's run was going on, its retries included:
// under serial they are left to the misfire rule, under skip they do not run.
func (m *Machine) afterRun(e *entry, now int64) {
	j := m.jobOf(e)
	if j.Overlap != carillon.OverlapSkip || e.state.Next == 0 || m.nextDue(e) > now {
		return
	}
	s := m.scheduleOf(e)
	if s == nil {
		return
	}
	m.passOver(e, s, e.state.Next, m.newestDue(e, s, e.state.Next, now), now, ReasonOverlap)
}
